"""The state-machine job's alerts are the planted ones, each once, and a defect would be noticed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing
from rheos.connectors.generator import GeneratorSource
from tests.ops.chaos.example import state_machine as job

VISITS = job.Visits(users=30, splits=3, seed=5)
EVENTS = 4_000
ROUGH = testing.Faults(crash_slot=4.0, until_us=1_500_000)


def alerts_of(build: Any, faults: testing.Faults) -> list[Any]:
    return alerts(testing.simulate(build, seed=3, faults=faults).out)


def alerts(found: pa.Table) -> list[Any]:
    return sorted((job.Alert(**row) for row in found.to_pylist()), key=lambda a: (a.user, a.number))


def build(env: rh.Environment) -> rh.DataStream:
    return job.build(env, VISITS, EVENTS, rate=2_000)


@pytest.mark.parametrize("visits", [VISITS, job.Visits(1, 1, 0), job.Visits(37, 4, 9)])
def test_planted_alerts_equal_those_of_a_plain_state_machine(visits: Any) -> None:
    events = defaultdict(list)
    for split in range(visits.splits):
        rows = EVENTS // visits.splits + (split < EVENTS % visits.splits)
        for row in visits(rh.Block(split, 0, rows, 0)).to_pylist():
            events[row["user"]].append(job.Event(**row))
    found = []
    for user in sorted(events):
        assert [event.number for event in events[user]] == list(range(len(events[user])))
        state, seen_at = job.OUTSIDE, 0
        for event in events[user]:
            if event.at > seen_at + job.SILENCE:
                state = job.OUTSIDE
            seen_at = event.at
            if (state, event.kind) in job.RULES:
                state = job.RULES[state, event.kind]
            else:
                found.append(job.Alert(user, event.number, state, event.kind))
                state = job.OUTSIDE
    assert found == visits.planted(EVENTS)
    assert found


def test_events_do_not_depend_on_how_blocks_are_cut() -> None:
    whole = VISITS(rh.Block(1, 0, 500, 0)).to_pylist()
    cut = [row for start in (0, 123) for row in VISITS(rh.Block(1, start, 377, 0)).to_pylist()]
    assert cut[:123] + cut[377:] == whole


def test_only_planted_alerts_are_emitted_despite_crashes() -> None:
    ran = testing.simulate(build, seed=3, faults=ROUGH)
    assert ran.crashes > 2
    assert job.faults(alerts(ran.out), VISITS.planted(EVENTS)) == []


class Forgetful(job.Validate):  # type: ignore[name-defined, misc]
    """Validation that keeps its users' state outside of checkpoints."""

    state = rh.ValueState(str, default=job.OUTSIDE)

    def open(self) -> None:
        self.lost: dict[int, str] = {}

    def process_element(self, event: job.Event, ctx: rh.KeyedContext) -> Iterator[job.Alert]:
        self.state.value = self.lost.get(event.user, job.OUTSIDE)
        yield from super().process_element(event, ctx)
        self.lost[event.user] = self.state.value

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[job.Alert]:
        if timestamp == self.gone_at.value:
            self.lost.pop(ctx.key, None)
        yield from super().on_timer(timestamp, ctx)


class Repeating(GeneratorSource):
    """Source that emits the last rows again after a restore."""

    def open(self, split: Any, position: bytes | None, ctx: Any) -> Any:
        reader: Any = super().open(split, position, ctx)
        reader._row = max(reader._row - 20, 0)
        return reader


@pytest.mark.slow
def test_the_checker_notices_lost_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "Validate", Forgetful)
    planted = VISITS.planted(EVENTS)
    assert alerts_of(build, testing.Faults(until_us=0)) == planted
    wrong = job.faults(alerts_of(build, ROUGH), planted)
    assert [line for line in wrong if line.startswith("false")]


@pytest.mark.slow
def test_the_checker_notices_repeated_events(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rh.generator

    def repeating(*args: Any, **settings: Any) -> Any:
        source = made(*args, **settings)
        fields = {name: value for name, value in vars(source).items() if name != "bounded"}
        return Repeating(**fields)

    monkeypatch.setattr(rh, "generator", repeating)
    planted = VISITS.planted(EVENTS)
    assert alerts_of(build, testing.Faults(until_us=0)) == planted
    wrong = job.faults(alerts_of(build, ROUGH), planted)
    assert [line for line in wrong if line.startswith("false")]


def test_the_checker_reports_false_missing_and_duplicate_alerts() -> None:
    planted = VISITS.planted(EVENTS)
    first, *rest = planted
    false = replace(first, number=first.number + 1)
    assert job.faults(planted, planted) == []
    assert job.faults(rest, planted) == [f"missing: {first}"]
    assert job.faults([first, *planted], planted) == [f"2 times: {first}"]
    assert job.faults([false, *planted], planted) == [f"false: {false}"]


def test_an_unfinished_run_may_lack_only_its_last_alerts() -> None:
    planted = VISITS.planted(10 * EVENTS)
    user = next(a.user for a in planted if sum(b.user == a.user for b in planted) > 2)
    first, *_, last = [alert for alert in planted if alert.user == user]
    without = lambda gone: [alert for alert in planted if alert != gone]  # noqa: E731
    assert job.faults(without(last), planted, ended=False) == []
    assert job.faults(without(first), planted, ended=False) == [f"missing: {first}"]
