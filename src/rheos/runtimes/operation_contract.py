"""The contract of a job operation, and its declaration for everything that is derived from it.

The operations themselves are in `rheos.runtimes.job_operations`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

import msgspec

from rheos.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rheos.core.plan.outline import PlanOutline
    from rheos.runtimes.driver.master import Master
    from rheos.runtimes.job_handle import JobHandle
    from rheos.runtimes.views.reader import ViewReader

T = TypeVar("T")

REST_BASE = "/api/v1"
"""Path below which REST offers the operations."""
MAX_TEXT = 4096
"""Usual maximum number of characters in one string of a request."""
MAX_READ_BYTES = 256 * 1024
"""Maximum size of the posted body of a read."""


class Role(Enum):
    """Role of the requester."""

    LOOK = "look"
    READ = "read"
    """Also permits reading rows of materialized views and of keyed state, and features. An operation
    with this role has an argument with its own name, which names what is read."""
    OPERATE = "operate"
    """Also permits savepoints, profiles, stops, rescales, cancels, and replays of the program."""

    def may(self, needed: Role) -> bool:
        """Return whether this role permits what needs the role `needed`: each permits the earlier
        ones."""
        order = [*Role]
        return order.index(self) >= order.index(needed)


class Face(Enum):
    """An interface that offers an operation exactly as it is declared."""

    REST = "rest"
    COMMAND = "command"


EVERYWHERE = frozenset(Face)
ONLY_REST = frozenset({Face.REST})
NOWHERE: frozenset[Face] = frozenset()
"""No interface: other routes and commands show the operation's result, together with more."""


class Meaning(Enum):
    """Meaning of a string in a request from the network."""

    TEXT = "text"
    """A name, a duration or a value: nothing is opened by it."""
    SAVEPOINT_FOLDER = "a folder for savepoints"
    """Folder below which savepoints are written."""
    SAVEPOINT = "a savepoint"
    """Savepoint whose state is restored. The state may be pickled, so that reading it may run code."""
    PROGRAM = "a program"
    """Program file that is run."""


@dataclass(frozen=True)
class Argument:
    """Declaration of one field of an operation, for REST and for the command."""

    help: str
    meaning: Meaning = Meaning.TEXT
    """Meaning of a string. The command makes a savepoint folder absolute, because the driver has
    another working directory."""
    bounds: Mapping[str, float] | None = None
    """Constraints of the REST body, by their names in `msgspec.Meta`. The driver checks them, too, and
    its error contains a hint."""
    max_chars: int = MAX_TEXT
    """Maximum number of characters of a string over REST."""
    positional: str | None = None
    """Name of a positional argument of the command; None for an option."""
    option: str | None = None
    """Name of the option, if it differs from the field's."""
    seconds: bool = False
    """Whether the command accepts a duration, such as 30s or 2h."""
    default: str | None = None
    """Description of the default, for the command's help."""


# --- the contract -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AskedJob:
    """A running job, as seen by the control socket."""

    handle: JobHandle
    plan: PlanOutline
    settings: dict[str, str]


class DrivenJob(Protocol):
    """A job with a master, as the handlers see it. Each runtime implements the wait for the master."""

    @property
    @abstractmethod
    def master(self) -> Master:
        """The master that currently runs the job."""

    @abstractmethod
    def answered(self, answer: Future[T], what_failed: str) -> T:
        """Return the master's answer once it arrives. `what_failed` begins the error if it never
        arrives."""

    @abstractmethod
    def savepoint_place(self, directory: str | None) -> str:
        """Return the folder below which a savepoint goes. Raise RheosError if it cannot be written."""

    @abstractmethod
    def wait_until_over(self) -> None:
        """Return once the job has ended."""

    @abstractmethod
    def check_sampled(self) -> None:
        """Raise ConfigurationError if the job's subtasks cannot be sampled."""


class JobOperation(msgspec.Struct, Generic[T], frozen=True, tag=True, kw_only=True):
    """A request to a job, whose answer is a `T`."""

    name: ClassVar[str]
    """Name in REST paths, in the audit log and as a command."""
    role: ClassVar[Role] = Role.LOOK
    """The least role that may request it. The server's thread answers `LOOK` requests at once. Requests
    of the other roles may take long, so each has its own thread."""
    faces: ClassVar[frozenset[Face]] = EVERYWHERE
    reports: ClassVar[bool] = True
    """Whether the answer is data, which the command also prints as JSON."""
    timeout: ClassVar[str | None] = "30s"
    """Default time for which the command waits. None: no such option, as the answer takes `lasts_s`."""
    always_admitted: ClassVar[bool] = False
    """Whether it is carried out even if the maximum number of operations is running."""
    ends_job: ClassVar[bool] = False
    """Whether it ends the job. If so, the command waits until the job's record is gone."""

    def of_job(self, job: AskedJob) -> T:
        """Return the answer of a registered job. Raise RheosError if it refuses."""
        raise NotImplementedError

    def of_stored(self, views: ViewReader) -> T | None:
        """Return the answer of a job that does not run, from its checkpoints; None if only a running
        job can answer. Raise RheosError if it refuses."""
        return None

    @property
    def lasts_s(self) -> float:
        """Return the seconds that the operation itself takes."""
        return 0.0

    def text(self, answer: T) -> str | None:
        """Return the answer as the command prints it; None for JSON, or nothing if it is not data."""
        return None

    def note(self, job: str) -> str | None:
        """Return the line that the command prints to stderr when it is done; None for no line."""
        return None


class DriverOperation(JobOperation[T], frozen=True):
    """An operation that the job's driver carries out."""

    def of_job(self, job: AskedJob) -> T:
        return job.handle.ask(self)

    def carry_out(self, job: DrivenJob) -> T:
        """Return the answer, computed on the caller's thread. Raise RheosError if the job refuses."""
        raise NotImplementedError

    def nothing(self) -> T | None:
        """Return the empty answer of a job without checkpoints; None if such a job refuses."""
        return None

    def refusal(self) -> ConfigurationError:
        """Return the error with which a job without checkpoints refuses."""
        return ConfigurationError(
            f"this job does not support {self.name}: it is a batch job of Spark",
            hint='run it with runtime="continuous"',
        )


Operations: TypeAlias = tuple[type[JobOperation[Any]], ...]


# --- reading a declaration ----------------------------------------------------------------------------


def summary(operation: type[JobOperation[Any]]) -> str:
    """Return the first sentence of the help."""
    return help_text(operation).partition(". ")[0].rstrip(".")


def help_text(operation: type[JobOperation[Any]]) -> str:
    """Return the help of the operation on one line."""
    return " ".join((operation.__doc__ or "").split())


def arguments_of(operation: type[JobOperation[Any]]) -> dict[str, Argument]:
    """Return the declarations of the operation's fields. Raise TypeError if one is missing."""
    found: dict[str, Argument] = {}

    def note(name: str, kind: Any, argument: Argument) -> Any:
        found[name] = argument
        return kind

    declared_fields(operation, note)
    return found


def declared_fields(
    operation: type[JobOperation[Any]], declare: Callable[[str, Any, Argument], Any]
) -> list[Any]:
    """Return the name, the type and any default of each field, as `msgspec.defstruct` takes them.

    Args:
        operation: the operation.
        declare: returns the type that replaces the declared one, from the field's name, its type
            without its declaration, and its declaration.

    Raises:
        TypeError: a field has no `Argument`.
    """
    hints = get_type_hints(operation, include_extras=True)

    def replaced(name: str, hint: Any) -> Any:
        match get_args(hint):
            case (kind, Argument() as argument):
                return declare(name, kind, argument)
            case (optional, none) if none is type(None):
                return replaced(name, optional) | None
            case _:
                raise TypeError(f"{operation.__name__}.{name} does not declare its Argument")

    fields: list[Any] = []
    for field in msgspec.structs.fields(operation):
        declared = (field.name, replaced(field.name, hints[field.name]))
        fields.append(declared if field.required else (*declared, field.default))
    return fields
