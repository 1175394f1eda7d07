"""The lookup contract: rows of an external system, by key, which `stream.lookup(...)` requests.

`Lookup` is a frozen, picklable description of what the user configured; the client is made from it on
the worker, one for each subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Clock


@dataclass(frozen=True, slots=True)
class Found:
    """The rows found for a batch of keys."""

    rows: Batch
    """Rows with the lookup's schema, in any order. A key may have several rows, or none."""
    of: pa.Array
    """For each row, the position of its key among the requested keys: integers without nulls."""


@dataclass(frozen=True, slots=True)
class LookupContext:
    """The context of a lookup's client."""

    name: str
    """The name of the operator, for people."""
    subtask: int
    keys: pa.Schema
    """The columns that it will be asked by: named as the lookup's keys, of the stream's types."""
    clock: Clock | None = None
    """The clock of the runtime; None if a test passes no clock."""


class LookupClient(ABC):
    """Asks for rows, over a connection of its own."""

    @abstractmethod
    def fetch(self, keys: Batch) -> Found:
        """The rows of some keys, in as few round trips as it can.

        The keys are distinct, without nulls, at least one and some thousands at the most; columns as in
        `LookupContext.keys`. Called on the I/O executor, one call at a time. It may wait, some seconds
        at the most.

        Any exception is taken for a system that is away: it is called again, ever less often, as long
        as the user has said; so a connection that is lost is let go of, and made anew in the next call.
        A RheosError ends the attempt at once, unless it is an UnavailableError: a refused password, a
        table that is not there, a value that does not fit.
        """

    def close(self) -> None:
        """Called once, also after an error, when no call is under way any more."""


class Lookup(ABC):
    """A frozen description of where rows are looked up by key."""

    keys: tuple[str, ...]
    """The names of what it is asked by. `on=` says a column of the stream for each, in this order."""
    schema: pa.Schema
    """The columns that it gives, without its keys."""

    def validate(self, keys: pa.Schema) -> None:
        """Called when the program is built, with the columns that it will be asked by. Raises
        SchemaError where it cannot be asked by such types."""

    @abstractmethod
    def open(self, ctx: LookupContext) -> LookupClient:
        """The client of one subtask. Called in the mailbox, so it does not connect yet."""

    def describe(self) -> str:
        """A few words for `explain` and the status."""
        return type(self).__name__
