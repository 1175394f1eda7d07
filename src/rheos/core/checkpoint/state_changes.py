"""Differences of one state between a stored program and a changed one, by what the state holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rheos.core.checkpoint.column_changes import wider_column, wider_number
from rheos.core.checkpoint.type_changes import Change, changes, column_changes, described, found_by
from rheos.core.checkpoint.type_changes import Verdict as Verdict
from rheos.core.protocol.shapes import (
    AGGREGATES,
    ROWS_OF_AGGREGATES,
    FieldShape,
    StatePurpose,
    StateShape,
    TtlShape,
    TypeShape,
)

NEW_IN_TOTALS = "is new: open windows have rows from before it was added"
NEW_IN_ROWS = "is new: it is missing from rows of open windows"
RETRACTED = (
    "the restored state has not counted rows from before the upgrade, but they may be "
    "retracted. Start the job without the savepoint to count all rows"
)


def changes_of_state(old: StateShape, new: StateShape) -> list[Change]:
    """Return the differences; empty if the state can be read unchanged."""
    if old == new:
        return []
    if old.kind is not new.kind or old.holds != new.holds:
        return [Change("", Verdict.UNREADABLE, f"was {summary_of(old)}, is now {summary_of(new)}")]
    if _key(old) != _key(new):
        return [Change("key", Verdict.UNREADABLE, f"was {_key(old)}, is now {_key(new)}")]
    expiry = _expiry(old.ttl, new.ttl)
    if any(change.verdict is Verdict.UNREADABLE for change in expiry):
        return expiry
    compared = _COMPARED.get(old.holds)
    if compared is None or old.exact or new.exact:
        text = "was stored in another form"
        return [] if old.value == new.value else [Change("", Verdict.UNREADABLE, text)]
    return expiry + compared(old.value, new.value)


def _expiry(old: TtlShape | None, new: TtlShape | None) -> list[Change]:
    """Return the differences in time to live, such as stamps of another kind of time."""
    if old is None and new is None:
        return []
    if old is None:
        text = "now has a time to live, but the stored entries have no update time"
        return [Change("ttl", Verdict.UNREADABLE, text)]
    if new is None:
        text = "no longer has a time to live, but the stored entries are written with one"
        return [Change("ttl", Verdict.UNREADABLE, text)]
    if old.time != new.time:
        text = f"used {old.time}, now uses {new.time}: the stored times belong to the other clock"
        return [Change("ttl", Verdict.UNREADABLE, text)]
    if old.ms == new.ms:
        return []
    text = f"was {old.ms} ms, is now {new.ms} ms, which also applies to stored entries"
    return [Change("ttl", Verdict.MIGRATES, text)]


def _key(shape: StateShape) -> str:
    if not shape.key:
        return "without a key"
    return f"by {', '.join(f'{field.name}: {field.type.name}' for field in shape.key)}"


def _value(old: TypeShape, new: TypeShape) -> list[Change]:
    if old.name == new.name == "row":
        return _rows_by_name(old, new)
    return changes(old, new)


def _list(old: TypeShape, new: TypeShape) -> list[Change]:
    if old.name == new.name == "row":
        # Records of windows with a trigger are converted to the current columns when they are read.
        return [Change("[]", Verdict.MIGRATES, "rows are converted to the current columns")]
    return changes(old, new, "[]")


def _map(old: TypeShape, new: TypeShape) -> list[Change]:
    (old_key, old_item), (new_key, new_item) = old.args, new.args
    return found_by(changes(old_key, new_key, "[key]")) + changes(old_item, new_item, "[]")


def _rows_by_name(old: TypeShape, new: TypeShape) -> list[Change]:
    """Compare rows that a reduce has combined: Python values that are found by column name."""

    def gained(field: FieldShape) -> Change:
        return Change(field.name, Verdict.UNREADABLE, "is new, and is missing from combined rows")

    return _fields(old, new, gained, wider_number)


def _columns(old: TypeShape, new: TypeShape) -> list[Change]:
    def gained(field: FieldShape) -> Change:
        if field.required:
            text = "is new, and is missing from the stored state"
            return Change(field.name, Verdict.UNREADABLE, text)
        return Change(field.name, Verdict.MIGRATES, "is new: null for stored entries")

    return _fields(old, new, gained, wider_column)


def is_of_aggregates(shape: StateShape) -> bool:
    return shape.value.label in (AGGREGATES, ROWS_OF_AGGREGATES)


def _window_content(old: TypeShape, new: TypeShape) -> list[Change]:
    """Compare the rows of a function, or the state of built-in aggregates, which may be new."""
    texts = {AGGREGATES: NEW_IN_TOTALS, ROWS_OF_AGGREGATES: NEW_IN_ROWS}
    if new.label not in texts:
        return _columns(old, new)

    def gained(field: FieldShape) -> Change:
        return Change(field.name, Verdict.NEW, texts[new.label])

    return _fields(old, new, gained, wider_column)


def retracts(shape: StateShape) -> bool:
    """Return whether rows are also retracted from the aggregates."""
    return any(field.required for field in shape.value.fields)


def _running(old: TypeShape, new: TypeShape) -> list[Change]:
    def gained(field: FieldShape) -> Change:
        if field.required:
            return Change(field.name, Verdict.UNREADABLE, f"is new: {RETRACTED}")
        return Change(field.name, Verdict.NEW, "is new: it starts empty")

    others = {field.name: field.type.label for field in old.fields}
    found = [
        Change(field.name, Verdict.UNREADABLE, f"was {others[field.name]}, is now {field.type.label}")
        for field in new.fields
        if others.get(field.name, field.type.label) != field.type.label
    ]
    changed = {change.path for change in found}
    return found + [
        change for change in _fields(old, new, gained, wider_number) if change.path not in changed
    ]


def _windows(old: TypeShape, new: TypeShape) -> list[Change]:
    # Version 0.1.0 stored no kind of window; only the grid existed.
    kinds = [shape.label or "grid" for shape in (old, new)]
    if kinds[0] != kinds[1]:
        text = "were windows of the kind {}, are now of the kind {}".format(*kinds)
        return [Change("kind", Verdict.UNREADABLE, text)]
    if old.members != new.members:
        times = [shape.members[0] if shape.members else "event_time" for shape in (old, new)]
        return [Change("time", Verdict.UNREADABLE, "was {}, is now {}".format(*times))]
    before = {field.name: field.type for field in old.fields}
    after = {field.name: field.type for field in new.fields}
    if before.keys() != after.keys():
        return [Change("kind", Verdict.UNREADABLE, "merging windows and windows that do not merge")]
    found = [
        Change(name, Verdict.UNREADABLE, f"was {_cut_by(before[name])}, is now {_cut_by(after[name])}")
        for name in before
        if name != "lateness" and before[name].label != after[name].label
    ]
    was, now = int(before["lateness"].label), int(after["lateness"].label)
    if was < now:
        text = (
            f"was {was} ms, is now {now} ms: late rows would re-create windows that were "
            "already dropped, without their other rows"
        )
        found.append(Change("lateness", Verdict.UNREADABLE, text))
    elif was > now:
        text = f"was {was} ms, is now {now} ms: windows are dropped earlier"
        found.append(Change("lateness", Verdict.MIGRATES, text))
    return found


def _cut_by(shape: TypeShape) -> str:
    return shape.label if shape.name == "word" else f"{shape.label} ms"


def _positions(old: TypeShape, new: TypeShape) -> list[Change]:
    if old.label == new.label:
        return []
    return [Change("", Verdict.UNREADABLE, f"was written by {old.label}, and is read by {new.label}")]


def _pattern(old: TypeShape, new: TypeShape) -> list[Change]:
    if old.label == new.label:
        return []
    return [
        Change(
            "",
            Verdict.UNREADABLE,
            f"belonged to the pattern {old.label!r}, now belongs to {new.label!r}",
        )
    ]


def _no_changes(old: TypeShape, new: TypeShape) -> list[Change]:
    return []


_COMPARED: Mapping[str, Callable[[TypeShape, TypeShape], list[Change]]] = {
    StatePurpose.VALUE: _value,
    StatePurpose.LIST: _list,
    StatePurpose.MAP: _map,
    StatePurpose.TIMERS: _no_changes,
    StatePurpose.ROWS: _columns,
    StatePurpose.RUNNING: _running,
    StatePurpose.WINDOWS: _windows,
    StatePurpose.WINDOW_CONTENT: _window_content,
    StatePurpose.UNDECIDED: _columns,
    StatePurpose.MATCHES: _pattern,
    StatePurpose.POSITIONS: _positions,
}


def _fields(
    old: TypeShape,
    new: TypeShape,
    gained: Callable[[FieldShape], Change],
    wider: Callable[[str, str], bool],
) -> list[Change]:
    """Return the differences of columnar state, column by column."""

    def gone(field: FieldShape) -> Change:
        return Change(field.name, Verdict.DROPPED, "the program no longer has it")

    return column_changes(old, new, gone, gained, wider)


def summary_of(shape: StateShape) -> str:
    if shape.holds in (StatePurpose.VALUE, StatePurpose.LIST, StatePurpose.MAP):
        expires = "" if shape.ttl is None else ", with a time to live"
        return f"{shape.holds} of {described(shape.value)}{expires}"
    return shape.holds
