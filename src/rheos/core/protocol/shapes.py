"""Shapes of state: descriptions of its types as plain values, stored with every checkpoint.

A shape is derived from the program (`operators/shapes.py`), never from the data. If two shapes are
equal, state that was written under one can be read under the other unchanged.
`checkpoint/compatibility.py` decides what a difference means."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rheos.core.protocol.snapshots import StateKind


class TypeShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A type, with all nested types."""

    name: str
    """Kind of type: "int", "str", "list", "dict", "union", "enum", "dataclass", "pickle" ...; for a
    column its Arrow type."""
    label: str = ""
    """Name of the user's class, or of a declared type that is pickled."""
    args: list[TypeShape] = []
    """Item types of a container, or members of a union. The order of members does not matter."""
    fields: list[FieldShape] = []
    """Fields of a dataclass or similar record, or columns of columnar state."""
    members: list[str] = []
    """Values of an enum or literal, as strings; for other types their constraints, such as "ge=0"."""


WINDOW = "window"
"""Label of key columns that are a window's bounds: the last ones; not part of the key group."""


AGGREGATES = "aggregates"
"""Label of the value of window state of built-in aggregates. State from before an aggregate was added
can be restored; `NewAggregates` determines the new aggregate's result."""


ROWS_OF_AGGREGATES = "rows of aggregates"
"""Label of rows that all aggregates by expressions share. State from before an aggregate was added
lacks a column."""


VALUE = "value"
"""Label of key columns that are values of a key: the last ones; not part of the key group."""


class FieldShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: TypeShape
    required: bool = True
    """Whether old state must contain the field. False if the field has a default, or is nullable."""


class StatePurpose(StrEnum):
    """Purpose of a state. It determines what a difference of two shapes means."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    """State whose `value` is a dict. Its keys identify the entries."""

    TIMERS = "timers"
    ROWS = "rows"
    """Buffered rows of the stream; `value` has their columns."""

    PROGRESS = "progress"
    """Progress that belongs to another of the operator's states, one that is not written whole. It
    exists only together with that state."""

    RUNNING = "running aggregates"
    """Running aggregates; `value` has a field for each aggregate."""

    WINDOWS = "windows"
    """Windows that have fired; `value` describes their size and offset."""

    WINDOW_CONTENT = "content of windows"
    """Content of windows; `value` has the columns. A window needs all of its states."""

    UNDECIDED = "rows that are late or not"
    """Rows that wait until it is known whether they are late; `value` has their columns. The state may
    be absent."""

    MATCHES = "partial matches"
    """Partial matches; `value` describes the pattern without its conditions."""

    POSITIONS = "source positions"


class TtlShape(msgspec.Struct, frozen=True, kw_only=True):
    """Expiry of entries. Each entry is stored with the time of its last update."""

    time: str
    """Clock of that time: "event_time" or "processing_time"."""
    ms: int
    """Time in ms after which an entry expires."""


class StateShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The shape of one state of one operator."""

    kind: StateKind
    holds: str
    """Purpose of the state, one of `StatePurpose`. An older Rheos can read a newer one's string."""
    key: list[FieldShape] = []
    """Key columns of keyed state, with their types."""
    value: TypeShape
    exact: bool = False
    """Whether the state has a format private to the operator, to be restored by equal shapes only."""
    ttl: TtlShape | None = None
    """Expiry of entries; None if they do not expire."""
