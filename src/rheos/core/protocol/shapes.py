"""What state holds, as plain values: written with every checkpoint, compared when the program changes.

A shape is made from the program (`operators/shapes.py`) and never from the data. Two shapes that are
equal say that state written under the one is read under the other without a change. What a difference
means, `checkpoint/compatibility.py` says.
"""

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
    """What the user calls it: the name of a class, or a declared type that is pickled."""
    args: list[TypeShape] = []
    """Of a container: its items; of a union: its members, in an order that does not matter."""
    fields: list[FieldShape] = []
    """Of a dataclass and its like; of columnar state its columns."""
    members: list[str] = []
    """Of an enum or literal: its values, as text; of others what narrows them down, such as "ge=0"."""


WINDOW = "window"
"""The label of key columns that are the bounds of a window: they stand last, and do not decide the key
group."""


AGGREGATES = "aggregates"
"""The label of the value of window state that built-in aggregates keep: a window can do without what
an aggregate keeps that is new (`NewAggregates`)."""


ROWS_OF_AGGREGATES = "rows of aggregates"
"""The same, of rows that all aggregates by expressions share: rows from before lack a new column."""


VALUE = "value"
"""The label of key columns that are values of a key: they stand last, and do not decide the key group,
either."""


class FieldShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: TypeShape
    required: bool = True
    """False where what was written without the field can be read: it has a default, or may be null."""


class Holds(StrEnum):
    """What a state is for. It says what a difference of two shapes means."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    """`value` is a dict, whose keys find the entries again."""

    TIMERS = "timers"
    ROWS = "rows"
    """Rows of the stream that wait; `value` has their columns."""

    PROGRESS = "progress"
    """How far an operator had come with another of its states, where that is not written whole. It
    comes and goes with the other."""

    RUNNING = "running aggregates"
    """`value` has a field for each aggregate."""

    WINDOWS = "windows"
    """Which windows have fired; `value` says how they are cut."""

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
    """How long an entry lives after it."""


class StateShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One state of one operator."""

    kind: StateKind
    holds: str
    """One of `Holds`; a text, so that an older Rheos reads what a newer one knows more of."""
    key: list[FieldShape] = []
    """Of keyed state: the key columns, with their types."""
    value: TypeShape
    exact: bool = False
    """Written in a form of the operator's own: only an equal shape is read."""
    ttl: TtlShape | None = None
    """None where nothing expires."""
