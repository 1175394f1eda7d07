"""Which windows over a whole stream run in two phases, according to the plan, and why others do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rheos as rh
from rheos.core.operators.shapes import state_shapes
from rheos.core.protocol.ids import OperatorId
from tests.api.programs import environment, events

Counted = Callable[[rh.DataStream], rh.DataStream]


def notes(build: Counted) -> dict[str, str]:
    """Return the plan's notes on its operators."""
    env = environment()
    build(events(env)).collect("out")
    return {operator.id: operator.note for operator in env.plan().operators() if operator.note}


def counted(windows: rh.WindowedStream) -> rh.DataStream:
    return windows.aggregate(n=rh.agg.count(), most=rh.agg.top_k("value", 2))


@pytest.mark.parametrize(
    "window", [rh.Tumbling("1m"), rh.Sliding("1m", every="10s"), rh.Cumulating("1m", step="10s")]
)
def test_mergeable_aggregates_run_in_two_phases(window: rh.Window) -> None:
    assert notes(lambda rows: counted(rows.window_all(window).allowed_lateness("10s"))) == {
        "combine-1": "the first of two phases",
        "window-1": "the second of two phases",
    }


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (
            lambda rows: counted(rows.window_all(rh.Session("1m"))),
            "windows merge depending on every row",
        ),
        (
            lambda rows: counted(rows.window_all(rh.Tumbling("1m"))).side_output("late"),
            "late rows are read",
        ),
        (
            lambda rows: rows.window_all(rh.Tumbling("1m")).aggregate(p=rh.agg.quantile("value", 0.5)),
            "an aggregate needs every row",
        ),
        (
            lambda rows: counted(rows.window_all(rh.Tumbling("1m")).trigger(rh.triggers.count(3))),
            "the trigger or an aggregate of the windows reads every column",
        ),
    ],
)
def test_other_aggregates_run_in_one_phase(build: Counted, why: str) -> None:
    assert list(notes(build).values()) == [f"one phase: {why}"]


def test_keyed_windows_run_in_one_phase() -> None:
    assert notes(lambda rows: counted(rows.key_by("user").window(rh.Tumbling("1m")))) == {}


def test_rows_are_combined_before_the_exchange() -> None:
    env = environment()
    counted(events(env).window_all(rh.Tumbling("1m"))).collect("out")
    first, second, _ = env.plan().chains
    assert [operator.id for operator in first.operators][-1] == "combine-1"
    assert (second.operators[0].id, second.widest) == ("window-1", 1)
    assert "window-1]: the second of two phases" in env.explain("plan")


def test_a_program_may_change_between_one_and_two_phases() -> None:
    def states(*, read_late: bool) -> object:
        env = environment()
        windows = counted(events(env).window_all(rh.Tumbling("1m")))
        windows.collect("out")
        if read_late:
            windows.side_output("late").collect("late")
        return state_shapes(env.plan().operators())[OperatorId("window-1")]

    assert states(read_late=True) == states(read_late=False)
