"""What state holds, as plain values: written with every checkpoint, compared when the program changes.

A shape is made from the program (`operators/shapes.py`) and never from the data. Two shapes that are
equal say that state written under the one is read under the other without a change.
"""

from __future__ import annotations

import msgspec

from rheos.protocol.snapshots import StateKind


class TypeShape(msgspec.Struct, frozen=True, kw_only=True):
    """A type, as deep as it goes."""

    name: str
    """"int", "str", "list", "dict", "union", "enum", "pickle" ...; of a dataclass the class's name; of
    a column its Arrow type."""
    args: list[TypeShape] = []
    """Of a container: its items; of a union: its members, in an order that does not matter."""
    fields: list[FieldShape] = []
    """Of a dataclass."""
    members: list[str] = []
    """Of an enum: its values, as text."""


class FieldShape(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: TypeShape
    required: bool = True
    """False where a value written without the field can be read: it has a default."""


class StateShape(msgspec.Struct, frozen=True, kw_only=True):
    """One state of one operator."""

    kind: StateKind
    holds: str
    """"value", "list", "map", "timers", "window", "running", "source positions" ..."""
    key: list[FieldShape] = []
    """Of keyed state: the key columns, with their types."""
    value: TypeShape
    exact: bool = False
    """Written in a form of the operator's own: only an equal shape is read."""
