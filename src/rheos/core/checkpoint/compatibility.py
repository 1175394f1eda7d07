"""Compares stored state with a program: which state is mapped, migrated, dropped, or unreadable.

Pure (CP22). `compare` compares the declarations under which the state was written with those of the
program; `refusals` decides whether a job may start from the state. The command `rheos check` shows the
same findings before a deployment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from rheos.core.checkpoint.column_changes import wider_column, wider_number
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.type_changes import Change, changes, column_changes, described, found_by
from rheos.core.checkpoint.type_changes import Verdict as Verdict
from rheos.core.errors import CheckpointError, Site
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import (
    AGGREGATES,
    ROWS_OF_AGGREGATES,
    FieldShape,
    StatePurpose,
    StateShape,
    TtlShape,
    TypeShape,
)
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import NewAggregates

States = Mapping[OperatorId, Mapping[str, StateShape]]
"""Shapes by operator and state, for operators with state."""

IN_FLIGHT = "in-flight "
"""Prefix of the names of states that contain rows between operators instead of the program's state."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome for one piece of stored state."""

    operator: OperatorId
    name: str
    """Name of the operator, for people."""
    state: str
    """Name of the state; empty if the finding concerns the whole operator."""
    field: str
    """Path inside the state; empty if the finding concerns the whole state."""
    verdict: Verdict
    text: str
    refused: bool = False
    """Whether a run refuses to start: state is unreadable, or would be dropped without permission, or
    open windows lack a value. A field that was removed from its class is dropped without refusal."""
    fix: str = ""
    """Hint for this finding; empty if the hint of its kind is enough."""

    @property
    def lost(self) -> bool:
        """Return whether stored state would be lost."""
        return self.verdict in (Verdict.DROPPED, Verdict.UNREADABLE)

    def is_allowed(self, allow_dropped: bool, new_aggregates: NewAggregates | None) -> bool:
        """Return whether the user's options allow a run to start despite the finding."""
        match self.verdict:
            case Verdict.DROPPED:
                return allow_dropped
            case Verdict.NEW:
                return new_aggregates is not None
            case Verdict.UNREADABLE:
                return False
            case Verdict.SAME | Verdict.MIGRATES:
                return True
            case _:
                assert_never(self.verdict)

    def __str__(self) -> str:
        place = f"{self.name!r} ({self.operator})"
        inside = [f"state {self.state!r}"] * bool(self.state) + [self.field] * bool(self.field)
        return f"{', '.join([place, *inside])}: {self.text}"


def compare(old: States, new: States, names: Mapping[OperatorId, str]) -> list[Finding]:
    """Return the outcome for state that was declared as `old`, in a program that declares `new`.

    The findings have the order of `old`; new states follow. An unchanged state has one finding, any
    other state one for each difference.
    """
    found: list[Finding] = []
    for operator, states in old.items():
        name = names.get(operator, operator)
        if operator not in new:
            text = f"the program has no operator with this id; it stored {', '.join(states)}"
            alike = _look_alike(states, [one for one in new.items() if one[0] not in old])
            fix = ""
            if alike is not None:
                text += (
                    f"; {names.get(alike, alike)!r} ({alike}) stores the same kind of state: is "
                    "it the same operator?"
                )
                fix = f"if it is now the operator {alike!r}, add --rename {operator}={alike}"
            gone = Finding(operator, name, "", "", Verdict.DROPPED, text, refused=True, fix=fix)
            found.append(gone)
            continue
        found += _operator(operator, name, states, new[operator])
    for operator, states in new.items():
        if operator not in old:
            text = f"starts empty: {', '.join(states)}"
            found.append(Finding(operator, names.get(operator, operator), "", "", Verdict.NEW, text))
    return found


def _look_alike(
    states: Mapping[str, StateShape],
    others: Iterable[tuple[OperatorId, Mapping[str, StateShape]]],
) -> OperatorId | None:
    """Return the only new operator with identical state; None unless exactly one exists."""
    alike = [operator for operator, held in others if states == held]
    return alike[0] if len(alike) == 1 else None


def compare_entry(
    entry: CheckpointCompleted, new: States, operators: Mapping[OperatorId, str]
) -> list[Finding]:
    """Compare a checkpoint or savepoint with the program's states. Only states with stored content
    count. An entry without shapes is compared by the names of operators and states."""
    stored: dict[OperatorId, set[str]] = {}
    for handle in entry.handles:
        states = stored.setdefault(handle.operator, set())
        if handle.mode is PartMode.FILE:
            # A set of files contains all declared state of its operator.
            states.update(entry.states.get(handle.operator, ()))
        elif handle.rows or handle.mode is PartMode.DELTA:
            states.add(handle.state)
    stored = {operator: states for operator, states in stored.items() if states}
    names = {**entry.operators, **operators}
    if not entry.states:
        return _by_names(stored, new, names)
    old = {
        operator: {name: shape for name, shape in states.items() if name in stored[operator]}
        for operator, states in entry.states.items()
        if operator in stored
    }
    return compare(old, new, names)


def refusals(
    findings: Iterable[Finding],
    *,
    allow_dropped: bool,
    new_aggregates: NewAggregates | None = None,
    sites: Mapping[OperatorId, Site] = MappingProxyType({}),
) -> CheckpointError | None:
    """Return the error for the first operator that prevents a start; None if the job may start.

    Args:
        findings: Result of `compare`.
        allow_dropped: Whether the user allows state to be dropped.
        new_aggregates: The user's choice for new aggregates that open windows lack.
        sites: Places of the operators in the program.
    """
    findings = [_chosen(finding, new_aggregates) for finding in findings]
    refused = [
        finding
        for finding in findings
        if finding.refused and not finding.is_allowed(allow_dropped, new_aggregates)
    ]
    gone = [f for f in findings if not f.state and f.verdict is Verdict.DROPPED]
    if gone and not allow_dropped and all(not f.state for f in findings):
        return _of_another_job(findings, gone)
    if not refused:
        return None
    told = sorted(refused, key=lambda finding: -finding.verdict.gravity)
    verdicts = list(dict.fromkeys(finding.verdict for finding in told))
    error = CheckpointError(
        _WHAT[verdicts[0]],
        hint="; ".join(
            [*(_HINT[verdict] for verdict in verdicts), *dict.fromkeys(f.fix for f in told if f.fix)]
        )
        + _hint_of_uids(refused),
        detail="\n".join(map(str, told)),
    )
    first = next((finding for finding in told if finding.operator in sites), None)
    if first is not None:
        error.located(site=sites[first.operator], operator=first.name)
    return error


def _chosen(finding: Finding, new_aggregates: NewAggregates | None) -> Finding:
    """Return the finding; as unreadable if the user's choice for new aggregates is impossible for
    it."""
    if new_aggregates is NewAggregates.SINCE and finding.text == _NEW_IN_ROWS:
        fix = "with --new-aggregates null it is null for open windows"
        text = f"{_NEW_IN_ROWS}; it would also need rows from before the upgrade"
        return replace(finding, verdict=Verdict.UNREADABLE, text=text, fix=fix)
    return finding


_WHAT = {
    Verdict.UNREADABLE: "the changed program cannot read the stored state",
    Verdict.DROPPED: "the program no longer uses some of the stored state, which would be lost",
    Verdict.NEW: "open windows lack the value of a new aggregate",
}
_HINT = {
    Verdict.UNREADABLE: "keep the old declaration; or change the operator's uid and add "
    "--allow-dropped: the operator then starts empty and its old state is dropped",
    Verdict.DROPPED: "if that is meant, add --allow-dropped",
    Verdict.NEW: (
        "add --new-aggregates null, to make the new aggregate null for windows that have rows from "
        "before the upgrade; or --new-aggregates since, to compute it from the rows since then. "
        "Windows that begin later are not affected"
    ),
}


def _of_another_job(findings: Sequence[Finding], gone: Sequence[Finding]) -> CheckpointError:
    there = ", ".join(f"{finding.name!r} ({finding.operator})" for finding in gone)
    now = ", ".join(f"{f.name!r} ({f.operator})" for f in findings if f.verdict is Verdict.NEW)
    return CheckpointError(
        "the stored state belongs to another job: it has no operator of this program",
        hint="name a savepoint of this job, or start it without one" + _hint_of_uids(gone),
        detail=f"it holds state of {there}\nthe program keeps state in {now or 'no operator'}",
    )


_MADE = re.compile(r"[a-z_]+-\d+(-auto)*")


def _hint_of_uids(findings: Iterable[Finding]) -> str:
    """Return a hint about ids that depend on an operator's place in the program; empty if no
    finding has such an id."""
    if any(not f.state and _MADE.fullmatch(f.operator) for f in findings):
        return (
            "; ids such as 'window-1' depend on the operator's place in the program: operators "
            'keep their state across changes if they have their own ids, set with .uid("...")'
        )
    return ""


# --- operators and states -----------------------------------------------------------------------------


def _operator(
    operator: OperatorId, name: str, old: Mapping[str, StateShape], new: Mapping[str, StateShape]
) -> Iterator[Finding]:
    content = [name for name, shape in old.items() if shape.holds == StatePurpose.WINDOW_CONTENT]
    for state, shape in old.items():
        if shape.holds == StatePurpose.PROGRESS:
            continue
        found = _state(shape, new[state]) if state in new else [_dropped(shape)]
        if not found:
            yield Finding(operator, name, state, "", Verdict.SAME, _summary(shape))
        for change in found:
            refused = change.verdict is Verdict.UNREADABLE or (
                state not in new and shape.holds != StatePurpose.WINDOW_CONTENT
            )
            refused = refused or change.text in (_NEW_IN_TOTALS, _NEW_IN_ROWS)
            yield Finding(
                operator, name, state, change.path, change.verdict, change.text, refused, change.fix
            )
    for state, shape in new.items():
        if state in old or shape.holds in (
            StatePurpose.PROGRESS,
            StatePurpose.TIMERS,
            StatePurpose.UNDECIDED,
        ):
            continue  # Users do not declare these states, so new ones are not a finding.
        if shape.holds == StatePurpose.WINDOW_CONTENT and content:
            if shape.exact:
                continue
            if _is_of_aggregates(shape) and any(one in new for one in content):
                yield Finding(operator, name, state, "", Verdict.NEW, _NEW_IN_TOTALS, refused=True)
            else:
                text = "open windows lack it, but an aggregate or function needs it"
                yield Finding(operator, name, state, "", Verdict.UNREADABLE, text, refused=True)
        elif (
            shape.holds == StatePurpose.RUNNING
            and _retracts(shape)
            and any(one.holds == StatePurpose.RUNNING for one in old.values())
        ):
            text = f"is new: {_RETRACTED}"
            yield Finding(operator, name, state, "", Verdict.UNREADABLE, text, refused=True)
        else:
            yield Finding(operator, name, state, "", Verdict.NEW, f"starts empty: {_summary(shape)}")


def _dropped(shape: StateShape) -> Change:
    return Change("", Verdict.DROPPED, f"the program no longer has it; it stored {_summary(shape)}")


def _summary(shape: StateShape) -> str:
    if shape.holds in (StatePurpose.VALUE, StatePurpose.LIST, StatePurpose.MAP):
        expires = "" if shape.ttl is None else ", with a time to live"
        return f"{shape.holds} of {described(shape.value)}{expires}"
    return shape.holds


def _by_names(
    stored: Mapping[OperatorId, set[str]], new: States, names: Mapping[OperatorId, str]
) -> list[Finding]:
    """Compare by names, for entries without shapes."""
    found: list[Finding] = []
    known = "exists under this name, but the stored state does not record its type"
    for operator, states in stored.items():
        name = names.get(operator, operator)
        if operator not in new:
            text = f"the program has no operator with this id; it stored {', '.join(sorted(states))}"
            found.append(Finding(operator, name, "", "", Verdict.DROPPED, text, refused=True))
            continue
        for state in sorted(states):
            if state.startswith(IN_FLIGHT):
                continue
            if state in new[operator]:
                found.append(Finding(operator, name, state, "", Verdict.SAME, known))
            else:
                text = "the program no longer has it"
                found.append(Finding(operator, name, state, "", Verdict.DROPPED, text, refused=True))
    for operator, shapes in new.items():
        if operator not in stored:
            text = f"starts empty: {', '.join(shapes)}"
            found.append(Finding(operator, names.get(operator, operator), "", "", Verdict.NEW, text))
    return found


# --- one state ----------------------------------------------------------------------------------------


def _state(old: StateShape, new: StateShape) -> list[Change]:
    """Return the differences; empty if the state can be read unchanged."""
    if old == new:
        return []
    if old.kind is not new.kind or old.holds != new.holds:
        return [Change("", Verdict.UNREADABLE, f"was {_summary(old)}, is now {_summary(new)}")]
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


_NEW_IN_TOTALS = "is new: open windows have rows from before it was added"
_NEW_IN_ROWS = "is new: it is missing from rows of open windows"


def _is_of_aggregates(shape: StateShape) -> bool:
    return shape.value.label in (AGGREGATES, ROWS_OF_AGGREGATES)


def _window_content(old: TypeShape, new: TypeShape) -> list[Change]:
    """Compare the rows of a function, or the state of built-in aggregates, which may be new."""
    texts = {AGGREGATES: _NEW_IN_TOTALS, ROWS_OF_AGGREGATES: _NEW_IN_ROWS}
    if new.label not in texts:
        return _columns(old, new)

    def gained(field: FieldShape) -> Change:
        return Change(field.name, Verdict.NEW, texts[new.label])

    return _fields(old, new, gained, wider_column)


_RETRACTED = (
    "the restored state has not counted rows from before the upgrade, but they may be "
    "retracted. Start the job without the savepoint to count all rows"
)


def _retracts(shape: StateShape) -> bool:
    """Return whether rows are also retracted from the aggregates."""
    return any(field.required for field in shape.value.fields)


def _running(old: TypeShape, new: TypeShape) -> list[Change]:
    def gained(field: FieldShape) -> Change:
        if field.required:
            return Change(field.name, Verdict.UNREADABLE, f"is new: {_RETRACTED}")
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
