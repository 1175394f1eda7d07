"""The meaning of each argument of an operation, and the files and folders that it may name.

A request comes from the network, so its strings must not name a file that the job does not already use.
Every field of a body and every query parameter that holds a string has a `Meaning`; `checked` applies
the rule of each. A field without one fails when its operation is declared.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, assert_never

import msgspec

from rheos.core.checkpoint.log import JobLog
from rheos.core.errors import ConfigurationError
from rheos.core.redaction import redacted, redacted_values
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.host.stores import folder_exists, open_store
from rheos.runtimes.operation_contract import (
    MAX_READ_BYTES,
    MAX_TEXT,
    Argument,
    JobOperation,
    Meaning,
    declared_fields,
)

MAX_DEPTH = 16
"""Maximum nesting of a value of a request, such as a column of `row`."""
_INT64 = range(-(1 << 63), 1 << 64)
_LOCAL = ("file", "local")


_EXTRA = "rheos-meaning"


def _described_text(meaning: Meaning) -> msgspec.Meta:
    return msgspec.Meta(max_length=MAX_TEXT, extra={_EXTRA: meaning})


Text = Annotated[str, _described_text(Meaning.TEXT)]
SavepointFolder = Annotated[str, _described_text(Meaning.SAVEPOINT_FOLDER)]
SavepointPath = Annotated[str, _described_text(Meaning.SAVEPOINT)]
ProgramFile = Annotated[str, _described_text(Meaning.PROGRAM)]
Values = Annotated[dict[str, Any], msgspec.Meta(extra={_EXTRA: Meaning.TEXT})]
"""Values by column, as in JSON."""


@dataclass(frozen=True)
class QueryParameter:
    """A query parameter."""

    description: str
    meaning: Meaning
    max_chars: int = MAX_TEXT


def body_of(operation: type[JobOperation[Any]]) -> type[msgspec.Struct]:
    """Return the type of the JSON body of a job operation: its fields, with the meaning of each string,
    and with bounds."""

    def declared(_: str, kind: Any, argument: Argument) -> Any:
        constraints: dict[str, Any] = dict(argument.bounds or {})
        if kind not in (int, float, bool):
            constraints |= {"max_length": argument.max_chars, "extra": {_EXTRA: argument.meaning}}
        return Annotated[kind, msgspec.Meta(**constraints)] if constraints else kind

    return msgspec.defstruct(
        f"{operation.name.title().replace('-', '')}Request",
        declared_fields(operation, declared),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )


def meanings(body: type[msgspec.Struct]) -> dict[str, Meaning]:
    """Return the meaning of each field of a body that holds strings, by the field's name in Python.
    Raise TypeError if a field holds strings and does not declare their meaning."""
    found = {}
    described = msgspec.inspect.type_info(body)
    assert isinstance(described, msgspec.inspect.StructType)
    for field in described.fields:
        declared = set(_declared(field.type, None, f"{body.__name__}.{field.name}"))
        if len(declared) > 1:
            raise TypeError(
                f"{body.__name__}.{field.name} declares several kinds of strings: {declared}"
            )
        if declared:
            found[field.name] = declared.pop()
    return found


def _declared(kind: Any, known: Meaning | None, where: str) -> Iterator[Meaning]:
    """Yield the meanings of the strings that a value of the type may hold."""
    inspect = msgspec.inspect
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from _declared(inner, (extra or {}).get(_EXTRA, known), where)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _declared(each, known, where)
        case inspect.DictType(key_type=key, value_type=value):
            yield from _declared(key, known, where)
            yield from _declared(value, known, where)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from _declared(item, known, where)
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType() | inspect.NoneType():
            return
        case inspect.LiteralType():  # One of the declared values.
            return
        case _:  # A string, or a type that may contain one.
            if known is None:
                raise TypeError(
                    f"{where} is a string without a declared meaning: declare it as Text, or as "
                    "one of the paths of rheos.ops.dashboard.arguments"
                )
            yield known


S = TypeVar("S", bound=msgspec.Struct)


def checked(body: S, job: JobRecord, savepoint_folders: Sequence[str]) -> S:
    """Return the body with each path in the form in which it may be opened.

    Args:
        body: the decoded body of a request.
        job: the job of the request.
        savepoint_folders: folders for savepoints in addition to the job's checkpoint directory.

    Raises:
        ConfigurationError: a value is not allowed.
    """
    changed: dict[str, Any] = {}
    for name, meaning in meanings(type(body)).items():
        value = getattr(body, name)
        if value is None:
            continue
        check_value(name, value)
        if meaning is not Meaning.TEXT:
            changed[name] = _path(meaning, job, savepoint_folders)(name, value)
    return msgspec.structs.replace(body, **changed)


def check_read(body: msgspec.Struct) -> None:
    """Raise ConfigurationError if the body of a read contains a value that no request may contain. Its
    strings name no files, and the decoder has checked their lengths."""
    for name in body.__struct_fields__:
        check_value(name, getattr(body, name), max_chars=MAX_READ_BYTES)


def check_value(name: str, value: Any, depth: int = 0, *, max_chars: int = MAX_TEXT) -> None:
    """Raise ConfigurationError if no request to a job may contain the value, or a string of it has more
    than `max_chars` characters."""
    match value:
        case str():
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                raise ConfigurationError(
                    f"{name!r} contains a character that is not valid in a string: {value[:80]!r}",
                    hint="send it without NUL and without unpaired surrogates",
                )
            if len(value) > max_chars:
                raise ConfigurationError(
                    f"{name!r} has a string of {len(value)} characters",
                    hint=f"send up to {max_chars} characters",
                )
        case bool() | None | float():
            pass
        case int():
            if value not in _INT64:
                raise ConfigurationError(
                    f"{name!r} contains a number that exceeds 64 bits: {str(value)[:40]}",
                    hint="send a smaller number",
                )
        case Mapping() | list():
            if depth >= MAX_DEPTH:
                raise ConfigurationError(
                    f"{name!r} is nested deeper than {MAX_DEPTH} levels", hint="send a flat value"
                )
            if isinstance(value, Mapping):
                for key in value:
                    check_value(name, key, depth + 1, max_chars=max_chars)
            for each in value.values() if isinstance(value, Mapping) else value:
                check_value(name, each, depth + 1, max_chars=max_chars)
        case _:
            raise TypeError(f"JSON has no {type(value).__name__}")


def shown(body: msgspec.Struct | None, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the arguments of a request for the audit, without secrets."""
    fields = {} if body is None else msgspec.to_builtins(body)
    given = {name: list(values) for name, values in query.items() if values}
    found: dict[str, Any] = redacted_values({**fields, **given})
    return found


# --- paths ----------------------------------------------------------------------------------------


def _path(
    meaning: Meaning, job: JobRecord, savepoint_folders: Sequence[str]
) -> Callable[[str, str], str]:
    """Return the check of a path, which returns the path in the form in which it is opened."""
    match meaning:
        case Meaning.SAVEPOINT_FOLDER:
            return lambda name, value: _require_job_folder(name, value, job, savepoint_folders)
        case Meaning.SAVEPOINT:
            return lambda name, value: _logged(name, value, job, savepoint_folders)
        case Meaning.PROGRAM:
            return lambda _, value: program_file(value, job)
        case Meaning.TEXT:
            raise AssertionError("a plain string is not a path")
        case _:
            assert_never(meaning)


def _require_job_folder(name: str, value: str, job: JobRecord, savepoint_folders: Sequence[str]) -> str:
    """Return the path if it is below the job's checkpoint directory, or a folder for savepoints."""
    own = job.checkpoint_dir
    places = [*([] if own is None else [own]), *savepoint_folders]
    for place in places:
        found = _path_within(value, place)
        if found is not None and not (place == own and _is_of_a_job(found, place)):
            return found
    named = f"the checkpoint directory of the job {job.job!r}"
    raise ConfigurationError(
        f"{name!r} is {redacted(value)!r}, which is not below {named}"
        if places
        else f"{name!r} is not allowed: the job {job.job!r} has no checkpoint directory of its own",
        hint="leave it out, pass a folder below that directory, or start the dashboard with "
        "--savepoint-dir; on the machine itself, `rheos savepoint` accepts any folder",
    )


def _logged(name: str, value: str, job: JobRecord, savepoint_folders: Sequence[str]) -> str:
    """Return the folder of a savepoint that the job's own log names, and that is below a folder for
    savepoints. Any other folder may contain pickled state that another user has written."""
    found = _require_job_folder(name, value, job, savepoint_folders)
    place = job.checkpoint_dir
    if place is not None and folder_exists(place):
        log = JobLog(open_store(place, make=False), job.job)
        if any(_same(found, each) for each in log.savepoints()):
            return found
    raise ConfigurationError(
        f"{name!r} is {redacted(value)!r}, which is not among the savepoints in the log of the "
        f"job {job.job!r}",
        hint="pass a folder that was returned when a savepoint of the job was taken; on the machine "
        "itself, rheos fork and rheos why accept any",
    )


def program_file(value: str, job: JobRecord) -> str:
    """Return the absolute path of a program in the folder in which the job was started: an operator of
    a job must not run other files of the machine. Raise ConfigurationError if it is elsewhere."""
    started = job.program
    if started is None:
        raise ConfigurationError(
            "the job's record does not name its program",
            hint="use the command on its machine: rheos fork",
        )
    folder = Path(os.path.realpath(started.folder))
    file = Path(os.path.realpath(folder / value))
    if not file.is_relative_to(folder) or not os.path.isfile(file):
        raise ConfigurationError(
            f"the file {value!r} does not exist in the folder where the job was started",
            hint="put the changed program there, and pass its relative path: job_v2.py",
        )
    for path in (file, *(each for each in file.parents if each.is_relative_to(folder))):
        _check_owned(path, value)
    return str(file)


def _check_owned(path: Path, value: str) -> None:
    """Raise ConfigurationError if another user could have written the program."""
    if os.name != "posix":
        return
    facts = path.stat()
    if facts.st_uid not in (os.geteuid(), 0) or facts.st_mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"the file {value!r} is not run, because other users can write to {str(path)!r}",
            hint="keep programs in a folder that only this user can write to",
        )


def _path_within(value: str, place: str) -> str | None:
    """Return the path if it is the place or below it; None otherwise. A relative path begins at the
    place."""
    base, path = _local(place), _local(value)
    if base is None:
        return _within_url(value, place)
    if path is None:
        return None
    root = os.path.realpath(base)
    found = os.path.realpath(os.path.join(root, path))
    return found if os.path.commonpath([root, found]) == root else None


def _within_url(value: str, place: str) -> str | None:
    if "***" in place or "::" in place:
        return None  # It is stored without its credentials, and so cannot be compared.
    root = place.rstrip("/")
    path = value.rstrip("/") if "://" in value or "::" in value else f"{root}/{value.strip('/')}"
    rest = path.removeprefix(root)
    parts = rest.removeprefix("/").split("/") if rest else []
    if not path.startswith(root) or (rest and not rest.startswith("/")):
        return None
    if any(part in ("", ".", "..") or set(part) & set("%?#\\:*") for part in parts):
        return None
    return path


def _local(path: str) -> str | None:
    """Return a path on a disk of this machine; None for another file system."""
    scheme, separator, rest = path.partition("://")
    if "::" in path:
        return None
    if not separator:
        return path
    return rest if scheme in _LOCAL else None


def _is_of_a_job(found: str, place: str) -> bool:
    """Return whether the path is among the files of a job's checkpoints, which retention removes."""
    base = _local(place)
    if base is None:
        return False
    parts = Path(found).relative_to(os.path.realpath(base)).parts
    kept = len(parts) > 1 and parts[1] != "savepoints"
    return kept and os.path.isdir(os.path.join(base, parts[0], "log"))


def _same(found: str, logged: str) -> bool:
    local = _local(logged)
    return found == (logged.rstrip("/") if local is None else os.path.realpath(local))
