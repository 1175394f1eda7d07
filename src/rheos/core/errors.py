"""Every error that Rheos raises, in one tree and one shape.

    RheosError
    ├── ProgramError          the program is wrong; found while it is built, before anything runs
    │   ├── SchemaError       an unknown column, a wrong type, an output type that is not declared
    │   ├── UnknownNameError  a method or name that does not exist; also an AttributeError
    │   ├── UnknownImportError  the same of an import; also an ImportError
    │   ├── UnknownKeyError   a name that a look-up does not find; also a KeyError
    │   ├── ArgumentsError    arguments that a function does not take; also a TypeError
    │   └── StateAccessError  state or timers used where there is no key, or where it may only be read
    ├── ConfigurationError    the environment is misconfigured: Java, master, directories, settings
    ├── InputError            data that does not fit: a missing or malformed file, a bad row
    ├── UserFunctionError     the user's function raised, or returned what it did not declare
    ├── StateError            state on the worker's local disk could not be written or read
    ├── CheckpointError       a checkpoint or the job's log could not be written or read
    │   ├── UnrestorableError stored state cannot be restored, however often the job starts
    │   └── FencedError       another attempt or driver owns the job now
    ├── UnavailableError      the system of a source or sink is temporarily unavailable
    ├── TransportError        a peer's frame is invalid, missing or duplicated, or a peer is lost
    ├── WorkerLostError       a worker process was killed, or crashed
    ├── OutOfMemoryError      a process ran out of memory, or was killed for lack of it
    ├── InternalError         a defect of Rheos itself
    └── JobFailedError        the job ended in failure; its cause is the error above

Each message begins with the user's file and line if they are known. The operator and the problem
follow, then the record and the key. The advice comes last. Workers send errors to the driver as data
(`protocol/error_data.py`). The string of an error is for people: characters that a terminal would act
on are escaped, and each further line of a message begins with "|". The attributes are exact.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from rheos.core.printable import CONTINUED, printable_lines
from rheos.core.redaction import redacted
from rheos.core.safe_strings import formatted_traceback, is_error, message_of, named_error


@dataclass(frozen=True, slots=True)
class Site:
    """The file and line in the user's code where an operator was created."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class RheosError(Exception):
    """The base class of all errors of Rheos.

    `what`, `hint` and `detail` never contain the credentials of URLs, because errors are shown, logged
    and stored.

    Args:
        what: one sentence that describes the problem, without its place.
        site: the file and line in the user's code.
        operator: the name of the operator.
        record: the record that caused the error, as a string.
        key: the key that was being processed, as a string.
        hint: what the user can do about it.
        detail: further lines, such as the user's own traceback.
    """

    def __init__(
        self,
        what: str,
        *,
        site: Site | None = None,
        operator: str | None = None,
        record: str | None = None,
        key: str | None = None,
        hint: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.what = redacted(what)
        super().__init__(self.what)
        self.site = site
        self.operator = operator
        self.record = record
        self.key = key
        self.hint = None if hint is None else redacted(hint)
        self.detail = None if detail is None else redacted(detail)

    def __str__(self) -> str:
        place = f"{self.site}: " if self.site else ""
        operator = f"operator {self.operator!r}: " if self.operator else ""
        lines = [printable_lines(f"{place}{operator}{self.what}")]
        if self.key is not None:
            lines.append(printable_lines(f"  key: {self.key}"))
        if self.record is not None:
            lines.append(printable_lines(f"  record: {self.record}"))
        if self.hint:
            lines.append(printable_lines(f"  what to do: {self.hint}"))
        if self.detail:
            lines.append(CONTINUED + printable_lines(self.detail.rstrip()))
        return "\n".join(lines)

    def located(self, *, site: Site | None, operator: str | None) -> RheosError:
        """Add the place of an error, where it has none yet.

        Args:
            site: The user's file and line, or None if unknown.
            operator: Name of the operator, or None if unknown.

        Returns:
            This error.
        """
        self.site = self.site or site
        self.operator = self.operator or operator
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.what, dict(self.__dict__)))


def _rebuild(cls: type[RheosError], what: str, fields: dict[str, Any]) -> RheosError:
    error = cls(what)
    error.__dict__.update(fields)
    return error


class ProgramError(RheosError):
    """The program is wrong; found while it is built."""


class SchemaError(ProgramError):
    """An unknown column, a wrong type, or an output type that is not declared."""


class UnknownNameError(ProgramError, AttributeError):
    """A method, attribute or module member that does not exist."""


class UnknownImportError(ProgramError, ImportError):
    """A name in `from rheos import ...` that does not exist."""


class UnknownKeyError(ProgramError, KeyError):
    """A look-up by a name that does not exist, such as that of a result or a counter."""


class ArgumentsError(ProgramError, TypeError):
    """Arguments that the called function does not take."""


class StateAccessError(ProgramError):
    """Keyed state or timers were used where there is no key."""


class ConfigurationError(RheosError):
    """The environment is misconfigured: Java, the master, a directory, a setting."""


class InputError(RheosError):
    """Data that does not fit: a missing or malformed file, a row that breaks its schema."""


class UserFunctionError(RheosError):
    """The user's function raised an error, or returned something that it did not declare."""


class StateError(RheosError):
    """State on the worker's local disk could not be written or read."""


class CheckpointError(RheosError):
    """A checkpoint or the job's log could not be written or read."""


class UnrestorableError(CheckpointError):
    """Stored state cannot be restored, however often the job is started: it is damaged, incomplete,
    from a newer version, or from another program."""


class FencedError(CheckpointError):
    """Another attempt or another driver owns the job now."""


class UnavailableError(RheosError):
    """A source's or sink's system is temporarily unavailable, or temporarily refuses requests. The job
    restarts by its restart strategy."""


class TransportError(RheosError):
    """A peer sent an invalid frame, a frame is missing or duplicated, or a peer was lost."""


class WorkerLostError(RheosError):
    """A worker process was killed, or crashed, without reporting an error of its own."""

    subtask: int | None = None
    """The subtask that the worker ran; None if that is not known."""

    def __init__(self, what: str, *, subtask: int | None = None, **about: Any) -> None:
        super().__init__(what, **about)
        self.subtask = subtask


class OutOfMemoryError(RheosError):
    """A process ran out of memory, or was killed for lack of it."""


class InternalError(RheosError):
    """A defect of Rheos itself: an exception that no code handles."""


LESS_MEMORY = (
    'keep state on disk (state="rocksdb"), limit it (ttl=, windows), spread it over more '
    "subtasks, or allow the workers more memory"
)
"""Advice for a process that has run out of memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception reports lack of memory, or that no thread can be started, which has
    the same cause."""
    if is_error(error, OSError):
        return error.errno == errno.ENOMEM
    # A thread needs memory for its stack. If the system refuses it, Python does not report the
    # reason.
    no_thread = type(error) is RuntimeError and message_of(error) == "can't start new thread"
    return no_thread or is_error(error, MemoryError)


def unexpected(error: BaseException) -> RheosError:
    """Return the error for an exception that Rheos does not handle, with its traceback."""
    if is_out_of_memory(error):
        return OutOfMemoryError(
            f"a process has run out of memory: {named_error(error)}",
            hint=LESS_MEMORY,
            detail=formatted_traceback(error),
        )
    return InternalError(
        named_error(error),
        hint="this is a defect of Rheos, or of a connector: please report it with these lines",
        detail=formatted_traceback(error),
    )


class JobFailedError(RheosError):
    """The job ended in failure; the cause is attached."""
