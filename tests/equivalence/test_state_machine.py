"""The second example finds the events that break a shop's rules, on every runtime: exactly those
that a loop over the same events finds. The loop knows nothing of iterations, of Rheos, or of the
planted events."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from tests.equivalence.compare import difference

EXAMPLES = Path(__file__).parents[2] / "examples"
EVENTS, USERS, SPLITS = 4_000, 24, 3
HALF_AN_HOUR = 30 * 60_000


@pytest.fixture(scope="module")
def example() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        import state_machine

        yield state_machine


def alerts(example: Any) -> pl.DataFrame:
    visits = example.Visits(USERS, SPLITS, seed=0)
    events = pa.Table.from_batches(
        [
            visits(rh.Block(split, 0, EVENTS // SPLITS + (split < EVENTS % SPLITS), 0))
            for split in range(SPLITS)
        ]
    ).to_pylist()
    by_user: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["at"]):
        by_user[event["user"]].append(event)
    rules = {
        "outside": {"sign_in": "browsing"},
        "browsing": {"add": "shopping", "sign_out": "outside"},
        "shopping": {"add": "shopping", "remove": "browsing", "pay": "paid"},
        "paid": {"ship": "browsing"},
    }
    found = []
    for user, of in by_user.items():
        state, last = "outside", 0
        for event in of:
            if event["at"] > last + HALF_AN_HOUR:
                state = "outside"
            last = event["at"]
            following = rules[state].get(event["kind"])
            if following is None:
                found.append((user, event["number"], state, event["kind"]))
            state = following or "outside"
    return pl.DataFrame(found, ["user", "number", "state", "kind"], orient="row")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("runtime", "parallelism"), [("simulated", 2), ("continuous", 2), ("batch", 1), ("batch", 3)]
)
def test_the_example_finds_the_events_that_break_the_rules(
    runtime: Any, parallelism: int, example: Any
) -> None:
    env = rh.Environment(parallelism, runtime=runtime)
    example.build(env, example.Visits(USERS, SPLITS, seed=0), EVENTS).collect("alerts")
    found = env.execute("state machine").collected["alerts"]
    wanted = alerts(example)
    assert wanted.height > 10
    assert difference(found, wanted) is None


def test_every_example_is_in_the_suite() -> None:
    # orders.py has no end: tests/docs/test_planning.py plans it. charges.py calls another system, which
    # no batch job may do: tests/docs/test_side_effects.py runs it.
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"orders.py", "charges.py"} == {
        "flights.py",
        "graph.py",
        "payments.py",
        "state_machine.py",
    }
