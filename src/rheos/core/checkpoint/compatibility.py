"""Compares stored state with a program: which state is mapped, migrated, dropped, or unreadable.

Pure (CP22). `compare` compares the declarations under which the state was written with those of the
program; `refusals` decides whether a job may start from the state. The command `rheos check` shows the
same findings before a deployment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.state_changes import (
    NEW_IN_ROWS,
    NEW_IN_TOTALS,
    RETRACTED,
    changes_of_state,
    is_of_aggregates,
    retracts,
    summary_of,
)
from rheos.core.checkpoint.type_changes import Change
from rheos.core.checkpoint.type_changes import Verdict as Verdict
from rheos.core.errors import CheckpointError, Site
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import WINDOW, StatePurpose, StateShape
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
    by_gravity = sorted(refused, key=lambda finding: -finding.verdict.gravity)
    verdicts = list(dict.fromkeys(finding.verdict for finding in by_gravity))
    error = CheckpointError(
        _WHAT[verdicts[0]],
        hint="; ".join(
            [
                *(_HINT[verdict] for verdict in verdicts),
                *dict.fromkeys(f.fix for f in by_gravity if f.fix),
            ]
        )
        + _hint_of_uids(refused),
        detail="\n".join(map(str, by_gravity)),
    )
    first = next((finding for finding in by_gravity if finding.operator in sites), None)
    if first is not None:
        error.located(site=sites[first.operator], operator=first.name)
    return error


def _chosen(finding: Finding, new_aggregates: NewAggregates | None) -> Finding:
    """Return the finding; as unreadable if the user's choice for new aggregates is impossible for
    it."""
    if new_aggregates is NewAggregates.SINCE and finding.text == NEW_IN_ROWS:
        fix = "with --new-aggregates null it is null for open windows"
        text = f"{NEW_IN_ROWS}; it would also need rows from before the upgrade"
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
    keep = _KEEP_TRIGGER if _lost_trigger(old, new) else ""
    for state, shape in old.items():
        if shape.holds == StatePurpose.PROGRESS:
            continue
        found = changes_of_state(shape, new[state]) if state in new else [_dropped(shape)]
        if not found:
            yield Finding(operator, name, state, "", Verdict.SAME, summary_of(shape))
        for change in found:
            refused = change.verdict is Verdict.UNREADABLE or (
                state not in new and shape.holds != StatePurpose.WINDOW_CONTENT
            )
            refused = refused or change.text in (NEW_IN_TOTALS, NEW_IN_ROWS)
            fix = change.fix or keep
            yield Finding(operator, name, state, change.path, change.verdict, change.text, refused, fix)
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
            if is_of_aggregates(shape) and any(one in new for one in content):
                yield Finding(operator, name, state, "", Verdict.NEW, NEW_IN_TOTALS, refused=True)
            else:
                text = "open windows lack it, but an aggregate or function needs it"
                yield Finding(operator, name, state, "", Verdict.UNREADABLE, text, refused=True)
        elif (
            shape.holds == StatePurpose.RUNNING
            and retracts(shape)
            and any(one.holds == StatePurpose.RUNNING for one in old.values())
        ):
            text = f"is new: {RETRACTED}"
            yield Finding(operator, name, state, "", Verdict.UNREADABLE, text, refused=True)
        else:
            yield Finding(operator, name, state, "", Verdict.NEW, f"starts empty: {summary_of(shape)}")


_KEEP_TRIGGER = (
    "to keep the state of windows with a trigger, keep their trigger, such as "
    ".trigger(rh.triggers.processing_time()); SQL has no triggers, so there the windows can only start "
    "empty, with --allow-dropped"
)


def _lost_trigger(old: Mapping[str, StateShape], new: Mapping[str, StateShape]) -> bool:
    """Return whether the state of windows with a trigger, by key and window, became that of windows
    without one."""
    by_window = any(key.type.label == WINDOW for shape in old.values() for key in shape.key)
    return by_window and any(shape.holds == StatePurpose.WINDOWS for shape in new.values())


def _dropped(shape: StateShape) -> Change:
    return Change("", Verdict.DROPPED, f"the program no longer has it; it stored {summary_of(shape)}")


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
