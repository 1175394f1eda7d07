"""Findings about stored state under a changed program, and when a job is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.compatibility import Finding, Verdict, compare, compare_entry, refusals
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import Site
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TtlShape, TypeShape
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from tests.core.checkpoint.timelines import handle

COUNT, ALERTS, READ = OperatorId("count"), OperatorId("alerts"), OperatorId("read")
NAMES = {COUNT: "count per user", ALERTS: "alerts", READ: "events"}
USER = [FieldShape(name="user", type=TypeShape(name="string"))]
INT, STR, FLOAT = TypeShape(name="int"), TypeShape(name="str"), TypeShape(name="float")


def keyed(value: TypeShape = INT, holds: str = StatePurpose.VALUE, **more: Any) -> StateShape:
    return StateShape(kind=StateKind.KEYED, holds=holds, key=USER, value=value, **more)


def event(*fields: FieldShape, label: str = "Event") -> TypeShape:
    return TypeShape(name="dataclass", label=label, fields=list(fields))


def field(name: str, type: TypeShape = INT, *, required: bool = True) -> FieldShape:
    return FieldShape(name=name, type=type, required=required)


SPLITS = StateShape(
    kind=StateKind.UNION,
    holds=StatePurpose.POSITIONS,
    value=TypeShape(name="source", label="FileSource"),
)
HOUR = TtlShape(time="event_time", ms=3_600_000)
BY_CLOCK = TtlShape(time="processing_time", ms=3_600_000)
STATES = {
    READ: {"splits": SPLITS},
    COUNT: {"seen": keyed(), "timers": keyed(TypeShape(name="timer"), StatePurpose.TIMERS)},
}


def verdicts(findings: list[Finding]) -> dict[str, Verdict]:
    return {
        "/".join(part for part in (f.operator, f.state, f.field) if part): f.verdict for f in findings
    }


def one(old: StateShape, new: StateShape) -> dict[str, Verdict]:
    """Return the findings if a single state changes, by field."""
    findings = compare({COUNT: {"s": old}}, {COUNT: {"s": new}}, NAMES)
    return {finding.field: finding.verdict for finding in findings}


# --- operators and states -----------------------------------------------------------------------------


def test_the_same_program_finds_all_its_state() -> None:
    findings = compare(STATES, STATES, NAMES)
    assert verdicts(findings) == {
        "read/splits": Verdict.SAME,
        "count/seen": Verdict.SAME,
        "count/timers": Verdict.SAME,
    }
    assert refusals(findings, allow_dropped=False) is None


def test_operators_and_states_that_are_new_start_empty() -> None:
    more = {**STATES, COUNT: {**STATES[COUNT], "last": keyed(STR)}, ALERTS: {"open": keyed()}}
    findings = compare(STATES, more, NAMES)
    assert verdicts(findings)["count/last"] is Verdict.NEW
    assert verdicts(findings)["alerts"] is Verdict.NEW
    assert refusals(findings, allow_dropped=False) is None


@pytest.mark.parametrize(
    ("new", "gone"),
    [
        ({READ: STATES[READ]}, "count"),
        ({READ: STATES[READ], COUNT: {"seen": keyed()}}, "count/timers"),
    ],
)
def test_dropped_state_is_refused_unless_allowed(new: Any, gone: str) -> None:
    findings = compare(STATES, new, NAMES)
    assert verdicts(findings)[gone] is Verdict.DROPPED
    refusal = refusals(findings, allow_dropped=False)
    assert refusal is not None
    assert "no longer uses" in refusal.what
    assert "--allow-dropped" in str(refusal.hint)
    assert "'count per user' (count)" in str(refusal.detail)
    assert refusals(findings, allow_dropped=True) is None


def test_unreadable_state_is_always_refused() -> None:
    new = {**STATES, COUNT: {**STATES[COUNT], "seen": keyed(STR)}}
    findings = compare(STATES, new, NAMES)
    refusal = refusals(findings, allow_dropped=True)
    assert refusal is not None
    assert "cannot read" in refusal.what
    assert refusal.detail == "'count per user' (count), state 'seen': was int, is now str"
    placed = refusals(findings, allow_dropped=True, sites={COUNT: Site("job.py", 7)})
    assert str(placed).startswith("job.py:7: operator 'count per user': the changed program cannot")


def test_a_field_that_its_class_no_longer_has_is_lost_and_not_refused() -> None:
    old = {COUNT: {"seen": keyed(event(field("n"), field("m")))}}
    new = {COUNT: {"seen": keyed(event(field("n")))}}
    findings = compare(old, new, NAMES)
    assert verdicts(findings) == {"count/seen/m": Verdict.DROPPED}
    assert [finding.lost for finding in findings] == [True]
    assert refusals(findings, allow_dropped=False) is None


def test_state_of_another_job_is_reported() -> None:
    other = {OperatorId("bids"): {"splits": SPLITS}, OperatorId("best"): {"top": keyed()}}
    refusal = refusals(compare(other, STATES, NAMES), allow_dropped=False)
    assert refusal is not None
    assert "belongs to another job" in refusal.what
    assert "it holds state of 'bids' (bids), 'best' (best)" in str(refusal.detail)
    assert "uid" not in str(refusal.hint)


def test_an_operator_that_may_be_the_same_under_another_id_is_named() -> None:
    other = OperatorId("counts")
    new = {READ: STATES[READ], other: STATES[COUNT]}
    (gone,) = [finding for finding in compare(STATES, new, {**NAMES, other: "counts"}) if finding.lost]
    assert gone.text.endswith(
        "'counts' (counts) stores the same kind of state: is it the same operator?"
    )
    twice = {**new, ALERTS: STATES[COUNT]}
    assert ") stores the same kind of state: is it the same" not in str(compare(STATES, twice, NAMES))


def test_for_derived_ids_the_advice_is_to_set_uids() -> None:
    old = {READ: STATES[READ], OperatorId("window-1"): {"fired": SPLITS}}
    new = {READ: STATES[READ], OperatorId("window-2"): {"fired": SPLITS}}
    refusal = refusals(compare(old, new, NAMES), allow_dropped=False)
    assert '.uid("...")' in str(refusal)
    named = {READ: STATES[READ], OperatorId("per-hour"): {"fired": SPLITS}}
    assert ".uid(" not in str(refusals(compare(named, new, NAMES), allow_dropped=False))


# --- one state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (keyed(INT), keyed(FLOAT), {"": Verdict.MIGRATES}),
        (keyed(INT, StatePurpose.LIST), keyed(FLOAT, StatePurpose.LIST), {"[]": Verdict.MIGRATES}),
        (keyed(INT), keyed(INT, StatePurpose.LIST), {"": Verdict.UNREADABLE}),
        (keyed(), keyed(), {"": Verdict.SAME}),
        (keyed(event(field("n"))), keyed(event(field("n"), field("m"))), {"m": Verdict.UNREADABLE}),
        (
            keyed(event(field("n"))),
            keyed(event(field("n"), field("m", required=False))),
            {"m": Verdict.MIGRATES},
        ),
        (keyed(exact=True), keyed(FLOAT, exact=True), {"": Verdict.UNREADABLE}),
        (keyed(), keyed(ttl=HOUR), {"ttl": Verdict.UNREADABLE}),
        (keyed(ttl=HOUR), keyed(), {"ttl": Verdict.UNREADABLE}),
        (keyed(ttl=HOUR), keyed(ttl=BY_CLOCK), {"ttl": Verdict.UNREADABLE}),
        (keyed(ttl=HOUR), keyed(ttl=HOUR), {"": Verdict.SAME}),
        (
            keyed(ttl=HOUR),
            keyed(FLOAT, ttl=TtlShape(time="event_time", ms=60_000)),
            {"ttl": Verdict.MIGRATES, "": Verdict.MIGRATES},
        ),
        (
            keyed(INT, "what a later version knows"),
            keyed(FLOAT, "what a later version knows"),
            {"": Verdict.UNREADABLE},
        ),
    ],
)
def test_a_changed_state_is_reported(
    old: StateShape, new: StateShape, expected: dict[str, Verdict]
) -> None:
    assert one(old, new) == expected


MAP = TypeShape(name="dict", args=[INT, INT])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([INT, FLOAT], {"[]": Verdict.MIGRATES}),
        ([FLOAT, INT], {"[key]": Verdict.UNREADABLE}),
        (
            [TypeShape(name="union", args=[INT, TypeShape(name="none")]), INT],
            {"[key]": Verdict.MIGRATES},
        ),
    ],
)
def test_keys_of_maps_must_keep_their_encoding(
    args: list[TypeShape], expected: dict[str, Verdict]
) -> None:
    assert (
        one(keyed(MAP, StatePurpose.MAP), keyed(TypeShape(name="dict", args=args), StatePurpose.MAP))
        == expected
    )


@pytest.mark.parametrize(
    "key",
    [
        [],
        [field("user", INT)],
        [field("country", TypeShape(name="string"))],
        [*USER, field("device", TypeShape(name="string"))],
    ],
)
def test_state_by_another_key_cannot_be_read(key: list[FieldShape]) -> None:
    timers = keyed(TypeShape(name="timer"), StatePurpose.TIMERS)
    assert one(timers, msgspec.structs.replace(timers, key=key)) == {"key": Verdict.UNREADABLE}


def test_a_source_of_another_kind_cannot_read_positions() -> None:
    value = TypeShape(name="source", label="GeneratorSource")
    assert one(SPLITS, msgspec.structs.replace(SPLITS, value=value)) == {"": Verdict.UNREADABLE}


def test_progress_is_added_and_dropped_with_its_operator() -> None:
    progress = keyed(TypeShape(name="watermark"), StatePurpose.PROGRESS)
    with_it = {COUNT: {"held": keyed(holds=StatePurpose.ROWS), "held behind": progress}}
    without = {COUNT: {"held": keyed(holds=StatePurpose.ROWS)}}
    for old, new in ((with_it, without), (without, with_it), (with_it, with_it)):
        assert verdicts(compare(old, new, NAMES)) == {"count/held": Verdict.SAME}


# --- checkpoints and savepoints -----------------------------------------------------------------------


def entry(*handles: StateHandle, states: Any = None) -> CheckpointCompleted:
    return CheckpointCompleted(
        attempt=Attempt(1),
        owner="driver",
        reserved_to=CheckpointId(9),
        checkpoint=CheckpointId(5),
        final=False,
        parallelism=1,
        max_parallelism=8,
        operators={COUNT: "count per user", READ: "events"},
        handles=list(handles),
        committables=[],
        states=STATES if states is None else states,
    )


READ_PART = handle(operator=READ, state="splits")


def test_empty_state_can_be_changed_in_any_way() -> None:
    stored = entry(READ_PART, handle(state="seen", rows=0), handle(state="timers"))
    changed = {**STATES, COUNT: {"seen": keyed(STR), "timers": STATES[COUNT]["timers"]}}
    assert verdicts(compare_entry(stored, changed, NAMES))["count/seen"] is Verdict.NEW
    dropped = {**STATES, COUNT: {"timers": STATES[COUNT]["timers"]}}
    assert "count/seen" not in verdicts(compare_entry(stored, dropped, NAMES))
    gone = {READ: STATES[READ]}
    assert verdicts(compare_entry(entry(READ_PART), gone, NAMES)) == {"read/splits": Verdict.SAME}


def test_a_part_that_changes_nothing_counts_as_state() -> None:
    stored = entry(READ_PART, handle(state="seen", rows=0, mode=PartMode.DELTA))
    changed = {**STATES, COUNT: {"seen": keyed(STR)}}
    assert verdicts(compare_entry(stored, changed, NAMES))["count/seen"] is Verdict.UNREADABLE


def test_a_set_of_files_holds_all_state_of_its_operator() -> None:
    stored = entry(READ_PART, handle(state="files", rows=0, mode=PartMode.FILE))
    assert verdicts(compare_entry(stored, STATES, NAMES)) == verdicts(compare(STATES, STATES, NAMES))
    changed = {**STATES, COUNT: {"seen": keyed(STR)}}
    assert verdicts(compare_entry(stored, changed, NAMES)) == {
        "read/splits": Verdict.SAME,
        "count/seen": Verdict.UNREADABLE,
        "count/timers": Verdict.DROPPED,
    }
    unsaid = entry(READ_PART, handle(state="files", rows=0, mode=PartMode.FILE), states={})
    assert refusals(compare_entry(unsaid, STATES, NAMES), allow_dropped=False) is None


def test_undeclared_state_is_ignored() -> None:
    stored = entry(
        READ_PART,
        handle(state="in-flight input 0"),
        handle(state="seen"),
    )
    assert set(verdicts(compare_entry(stored, STATES, NAMES))) == {"read/splits", "count/seen"}


def test_entries_without_shapes_are_compared_by_names() -> None:
    stored = entry(
        READ_PART,
        handle(state="seen"),
        handle(state="old"),
        handle(state="in-flight input 0"),
        states={},
    )
    findings = compare_entry(stored, {**STATES, ALERTS: {"open": keyed()}}, NAMES)
    assert verdicts(findings) == {
        "read/splits": Verdict.SAME,
        "count/old": Verdict.DROPPED,
        "count/seen": Verdict.SAME,
        "alerts": Verdict.NEW,
    }
    assert refusals(findings, allow_dropped=False) is not None
    gone = compare_entry(stored, {READ: STATES[READ]}, NAMES)
    assert verdicts(gone)["count"] is Verdict.DROPPED


def test_a_removed_operator_is_named_as_before() -> None:
    stored = entry(READ_PART, handle(state="seen"))
    findings = compare_entry(stored, {READ: STATES[READ]}, {READ: "events, renamed"})
    assert {finding.operator: finding.name for finding in findings} == {
        READ: "events, renamed",
        COUNT: "count per user",
    }
