"""Every error that Rheos raises, in one tree and one shape.

    RheosError
    ├── ProgramError          the program is wrong; found while it is built, before anything runs
    │   ├── SchemaError       an unknown column, a wrong type, an output type that is not declared
    │   └── StateAccessError  state or timers used where there is no key, or where it may only be read
    ├── ConfigurationError    the surroundings are wrong: Java, master, directories, settings
    ├── InputError            data that does not fit: a missing or malformed file, a bad row
    ├── UserFunctionError     the user's function raised, or gave what it did not declare
    ├── StateError            state on the worker's local disk could not be written or read
    ├── CheckpointError       a checkpoint or the job's log could not be written or read
    │   ├── UnrestorableError state is there and cannot be taken up, at whatever start
    │   └── FencedError       another attempt or driver owns the job now
    ├── UnavailableError      a system that a source reads or a sink writes is away, or refuses for now
    ├── TransportError        a peer's frame that is none, a gap, a duplicate, a lost peer
    ├── WorkerLostError       a worker process was killed, or crashed
    ├── OutOfMemoryError      a process has no memory left, or was killed because there was none
    ├── InternalError         Rheos itself has gone wrong where it should not
    └── JobFailedError        the job ended in failure; its cause is the error above

The message of each begins with the user's file and line where there is one, then the operator, then
what happened; record and key follow, and what to do comes last. They cross from the workers to the
driver as data (`protocol/error_data.py`). As text they are for people: characters that a terminal would
act on are escaped, and further lines of a message begin with "|". The attributes are exact.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from rheos.core.printable import CONTINUED, printable_lines
from rheos.core.redaction import redacted
from rheos.core.shown import formatted_traceback, is_error, message_of, named_error


@dataclass(frozen=True, slots=True)
class Site:
    """The place in the user's code where an operator was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class RheosError(Exception):
    """What happened, where in the user's code, and what to do.

    Credentials in URLs are left out of `what`, `hint` and `detail`: errors are shown, logged and kept.

    Args:
        what: one sentence that says what happened, without its place.
        site: the user's file and line.
        operator: the name of the operator concerned.
        record: the record that caused it, as text.
        key: the key it happened under, as text.
        hint: what to do about it.
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
        """This error, with its place filled in where it had none. Returns itself."""
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


class StateAccessError(ProgramError):
    """Keyed state or timers were used where there is no key."""


class ConfigurationError(RheosError):
    """The surroundings are wrong: Java, the master, a directory, a setting."""


class InputError(RheosError):
    """Data that does not fit: a missing or malformed file, a row that breaks its schema."""


class UserFunctionError(RheosError):
    """The user's function raised, or gave what it did not declare."""


class StateError(RheosError):
    """State on the worker's local disk could not be written or read."""


class CheckpointError(RheosError):
    """A checkpoint or the job's log could not be written or read."""


class UnrestorableError(CheckpointError):
    """State is there and cannot be taken up: damaged, missing in part, of a newer version, or made by
    another program. It is so at every start."""


class FencedError(CheckpointError):
    """Another attempt or another driver owns the job now."""


class UnavailableError(RheosError):
    """A system that a source reads or a sink writes is away, or refuses for now. It may come back: the
    job is restarted by its strategy."""


class TransportError(RheosError):
    """A peer's frame that is none, a gap, a duplicate, or a lost peer."""


class WorkerLostError(RheosError):
    """A worker process was killed, or crashed, without reporting an error of its own."""

    subtask: int | None = None
    """The subtask that it ran; None if that is not known."""

    def __init__(self, what: str, *, subtask: int | None = None, **about: Any) -> None:
        super().__init__(what, **about)
        self.subtask = subtask


class OutOfMemoryError(RheosError):
    """A process has no memory left, or was killed because there was none."""


class InternalError(RheosError):
    """Rheos itself has gone wrong: an exception that no part of it expects."""


LESS_MEMORY = (
    'keep state on disk (state="rocksdb"), limit it (ttl=, windows), spread it over more '
    "subtasks, or allow the workers more memory"
)
"""Advice for who has run out of memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that memory, or what the system counts as such, is used up."""
    if is_error(error, OSError):
        return error.errno == errno.ENOMEM
    # A thread needs memory for its stack, and Python does not say why the system refused it.
    no_thread = type(error) is RuntimeError and message_of(error) == "can't start new thread"
    return no_thread or is_error(error, MemoryError)


def unexpected(error: BaseException) -> RheosError:
    """Return the error for an exception that no part of Rheos expects, with its traceback."""
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
