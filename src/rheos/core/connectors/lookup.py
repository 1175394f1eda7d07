"""The lookup contract: `stream.lookup(...)` requests rows of an external system by key.

`Lookup` is a frozen, picklable description of what the user configured. The worker creates one client
from it for each subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Clock
from rheos.core.redaction import RedactedRepr


@dataclass(frozen=True, slots=True)
class Found:
    """The rows found for a batch of keys."""

    rows: Batch
    """Rows with the lookup's schema, in any order. A key may have any number of rows."""
    of: pa.Array
    """For each row, the position of its key among the requested keys: integers without nulls."""


@dataclass(frozen=True, slots=True)
class LookupContext:
    """The environment of a lookup's client."""

    name: str
    """Name of the operator, for people."""
    subtask: int
    keys: pa.Schema
    """Key columns of the requests: names of the lookup's keys, types of the stream's columns."""
    clock: Clock | None = None
    """Clock of the runtime; None in tests that pass no clock."""


class LookupClient(ABC):
    """A client that requests rows over a connection of its own."""

    @abstractmethod
    def fetch(self, keys: Batch) -> Found:
        """Return the rows of some keys, in as few round trips as possible.

        Called on the I/O executor, one call at a time. It may wait for a few seconds at most.

        Any exception is treated as an outage: Rheos repeats the call at growing intervals, for the time
        that the user configured. The client should drop a lost connection and open a new one in the
        next call.

        Args:
            keys: Distinct keys without nulls, from one to a few thousand, with the columns of
                `LookupContext.keys`.

        Returns:
            The rows, each with the position of its key.

        Raises:
            RheosError: The request is wrong, such as a refused password, a missing table, or a value
                that does not fit. It ends the attempt at once, unless it is an UnavailableError.
        """

    def close(self) -> None:
        """Release the connection. Called once, also after an error, when no request is running."""


class Lookup(RedactedRepr, ABC):
    """A frozen description of an external system from which rows are looked up by key."""

    keys: tuple[str, ...]
    """Names of the key columns. `on=` maps each of them, in this order, to a column of the stream."""
    schema: pa.Schema
    """Columns of the found rows, without the keys."""
    takes_vectors: ClassVar[bool] = False
    """Whether a key is a vector, a list of floats, and the found rows are those near to it."""

    def validate(self, keys: pa.Schema) -> None:
        """Check the key columns of the requests. Called when the program is built.

        Args:
            keys: The columns.

        Raises:
            SchemaError: Their types do not fit.
        """

    @abstractmethod
    def open(self, ctx: LookupContext) -> LookupClient:
        """Return the client of one subtask. The mailbox calls it, so it must not connect yet.

        Args:
            ctx: The environment of the client.

        Returns:
            The client.
        """

    def describe(self) -> str:
        """Return a short description for `explain` and the status."""
        return type(self).__name__
