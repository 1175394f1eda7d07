"""The contents of a savepoint, by operator and state, as a table for display."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.type_changes import described
from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.known_names import names_hint
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import StatePurpose, StateShape

T = TypeVar("T")


@dataclass(frozen=True)
class StateInfo:
    """One state of one operator."""

    operator: OperatorId
    """The operator's id: its uid, if the program sets one."""
    name: str
    """The operator's name, for display."""
    state: str
    kind: str
    """Kind of state: "value", "list", "map", "timers", "rows", "running aggregates", ..."""
    key: Mapping[str, str]
    """Key columns with their types; empty if the state is not keyed."""
    value: str
    """Type of its values, or its columns."""
    rows: int
    """Number of stored rows: for a list its segments, for window state the keys and panes."""
    size_bytes: int

    def cells(self) -> Sequence[Any]:
        key = ", ".join(f"{name}: {kind}" for name, kind in self.key.items())
        return (
            self.operator,
            self.name,
            self.state,
            self.kind,
            key,
            self.value,
            self.rows,
            self.size_bytes,
        )

    headings = ("operator", "name", "state", "kind", "key", "value", "rows", "bytes")


@dataclass(frozen=True)
class OperatorInfo:
    """One operator that keeps state."""

    operator: OperatorId
    name: str
    key: Mapping[str, str]
    states: Sequence[str]
    rows: int
    size_bytes: int

    def cells(self) -> Sequence[Any]:
        key = ", ".join(f"{name}: {kind}" for name, kind in self.key.items())
        return self.operator, self.name, key, ", ".join(self.states), self.rows, self.size_bytes

    headings = ("operator", "name", "key", "states", "rows", "bytes")


class Listing(Sequence[T], Generic[T]):
    """A sequence that is displayed as a table."""

    def __init__(self, items: Iterable[T], headings: Sequence[str]) -> None:
        self._items = tuple(items)
        self._headings = headings

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        return self._items[at]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __repr__(self) -> str:
        rows = [list(map(_short, item.cells())) for item in self._items]  # type: ignore[attr-defined]
        lines = [list(self._headings), *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([shown[0], "  ".join("-" * width for width in widths), *shown[1:]])


_MOST = 60


def _short(cell: Any) -> str:
    text = str(cell)
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


class EntryCatalogue:
    """The states of an entry, by operator."""

    def __init__(self, entry: CheckpointCompleted, what: str) -> None:
        self._entry = entry
        self._what = what
        """Description of the entry, for errors."""

    def operators(self) -> Listing[OperatorInfo]:
        infos: dict[OperatorId, list[StateInfo]] = {}
        for info in self.states():
            infos.setdefault(info.operator, []).append(info)
        return Listing(
            (
                OperatorInfo(
                    operator,
                    states[0].name,
                    next((info.key for info in states if info.key), {}),
                    [info.state for info in states],
                    sum(info.rows for info in states),
                    sum(info.size_bytes for info in states),
                )
                for operator, states in infos.items()
            ),
            OperatorInfo.headings,
        )

    def states(self) -> Listing[StateInfo]:
        rows: dict[tuple[OperatorId, str], list[int]] = {}
        for handle in self._entry.handles:
            held = rows.setdefault((handle.operator, handle.state), [0, 0])
            held[0] += handle.rows
            held[1] += handle.size_bytes
        return Listing(
            (
                StateInfo(
                    operator,
                    self._entry.operators.get(operator, operator),
                    state,
                    shape.holds,
                    {field.name: field.type.name for field in shape.key},
                    _value(shape),
                    *rows.get((operator, state), (0, 0)),
                )
                for operator, states in self._entry.states.items()
                for state, shape in states.items()
            ),
            StateInfo.headings,
        )

    def operator(self, asked: str) -> OperatorId:
        """Return an operator by its id, or by a name that only one operator has. Raise
        ConfigurationError if it is not found."""
        states = self._entry.states
        if asked in states:
            return OperatorId(asked)
        named = [operator for operator in states if self._entry.operators.get(operator) == asked]
        if len(named) == 1:
            return named[0]
        if named:
            raise ConfigurationError(
                f"{len(named)} operators of {self._what} are named {asked!r}",
                hint=f"pass the id of one: {', '.join(map(repr, named))}",
            )
        if not states and self._entry.handles:
            raise CheckpointError(
                f"{self._what} does not record the types of its states, so they cannot be shown",
                hint="start the job from it with this version of Rheos, and take another savepoint",
            )
        raise ConfigurationError(
            f"{self._what} has no state of an operator {asked!r}",
            hint=names_hint(asked, states, "its operators are"),
        )

    def shape(self, operator: OperatorId, state: str) -> StateShape:
        """Return the shape of a state. Raise ConfigurationError if the operator has no such state."""
        states = self._entry.states[operator]
        if state in states:
            return states[state]
        raise ConfigurationError(
            f"the operator {operator!r} of {self._what} has no state {state!r}",
            hint=names_hint(state, states, "its states are"),
        )

    def keyed_by(self, names: Iterable[str]) -> list[OperatorId]:
        """Return the operators whose key columns include all of these. Raise ConfigurationError if no
        operator has them."""
        wanted = set(names)
        keys = {
            operator: {field.name for shape in states.values() for field in shape.key}
            for operator, states in self._entry.states.items()
        }
        found = [operator for operator, columns in keys.items() if wanted <= columns]
        if not found:
            there = "; ".join(
                f"{operator!r} by {', '.join(sorted(columns))}"
                for operator, columns in keys.items()
                if columns
            )
            raise ConfigurationError(
                f"no operator of {self._what} is keyed by {', '.join(sorted(wanted))}",
                hint=f"keyed operators are: {there}" if there else "it has no keyed state",
            )
        return found


def _value(shape: StateShape) -> str:
    match shape.holds:
        case StatePurpose.VALUE | StatePurpose.LIST | StatePurpose.MAP:
            expires = "" if shape.ttl is None else f", expires after {shape.ttl.ms} ms"
            return f"{described(shape.value)}{expires}"
        case StatePurpose.RUNNING:
            return ", ".join(f"{field.name}: {field.type.label}" for field in shape.value.fields)
        case _ if shape.value.fields and shape.holds != StatePurpose.WINDOWS:
            return ", ".join(field.name for field in shape.value.fields)
    return ""
