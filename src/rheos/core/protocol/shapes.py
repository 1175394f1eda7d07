"""Shapes of state: its types, as plain values, written with every checkpoint.

A shape is made from the program (`operators/shapes.py`), never from the data. If two shapes are equal,
state that was written under one is read under the other unchanged. `checkpoint/compatibility.py`
decides what a difference means."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rheos.core.protocol.snapshots import StateKind


class TypeShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A type, as deep as it goes."""

    name: str
    """The kind of type: "int", "str", "list", "dict", "union", "enum", "dataclass", "pickle" ...; of a
    column its Arrow type."""
    label: str = ""
    """The user's name for it: the name of a class, or of a declared type that is pickled."""
    args: list[TypeShape] = []
    """Item types of a container, or members of a union. The order of members does not matter."""
    fields: list[FieldShape] = []
    """Fields of a dataclass or similar record, or columns of columnar state."""
    members: list[str] = []
    """Values of an enum or literal, as strings; for other types their constraints, such as "ge=0"."""


WINDOW = "window"
"""The label of key columns that are the bounds of a window. They are last, and do not affect the key
group."""


AGGREGATES = "aggregates"
"""Label of the value of window state of built-in aggregates. State from before an aggregate was added
can be restored; `NewAggregates` determines the new aggregate's result."""


ROWS_OF_AGGREGATES = "rows of aggregates"
"""The same, of rows that all aggregates by expressions share: rows from before lack a new column."""


VALUE = "value"
"""The label of key columns that are values of a key. They are last, and do not affect the key group,
either."""


class FieldShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: TypeShape
    required: bool = True
    """False where what was written without the field can be read: it has a default, or may be null."""


class Holds(StrEnum):
    """Purpose of a state. It determines what a difference of two shapes means."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    """`value` is a dict, whose keys find the entries again."""

    TIMERS = "timers"
    ROWS = "rows"
    """Rows of the stream that wait; `value` has their columns."""

    PROGRESS = "progress"
    """The operator's progress in another of its states that is not written whole. It exists together
    with the other."""

    RUNNING = "running aggregates"
    """`value` has a field for each aggregate."""

    WINDOWS = "windows"
    """Windows that have fired. `value` describes their size and offset."""

    WINDOW_CONTENT = "content of windows"
    """`value` has the columns. A window cannot do without any of its states."""

    UNDECIDED = "rows that are late or not"
    """Rows that wait for their windows to be known; `value` has their columns. It comes and goes."""

    MATCHES = "partial matches"
    """`value` says of which pattern, but for its conditions."""

    POSITIONS = "source positions"


class TtlShape(msgspec.Struct, frozen=True, kw_only=True):
    """Entries expire: each is stored with the time of its last update."""

    time: str
    """The clock of that time: "event_time" or "processing_time"."""
    ms: int
    """Time in ms that an entry lives after it."""


class StateShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One state of one operator."""

    kind: StateKind
    holds: str
    """One of `Holds`. It is a string, so that an older Rheos can read shapes of a newer one."""
    key: list[FieldShape] = []
    """Key columns of keyed state, with their types."""
    value: TypeShape
    exact: bool = False
    """Whether the state is written in a format private to the operator. It can only be restored if the
    shapes are equal."""
    ttl: TtlShape | None = None
    """None where nothing expires."""
