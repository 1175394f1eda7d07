"""A null key ends the job with the same error wherever it is found: in the sender that splits rows
by key, in the operator itself if one subtask takes all rows, or in a batch task that hashes or
combines rows. The error starts with the line of the `key_by`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import rheos as rh


@dataclass
class Visit:
    page: str
    user: str | None
    at: int


VISITS = [Visit("home", "ann", 1), Visit("cart", None, 2), Visit("home", "bob", 3)]


class Echo(rh.KeyedProcessFunction):
    def process_element(self, visit: Visit, ctx: Any) -> Iterator[Visit]:
        yield visit


class Latest(rh.WindowFunction):
    def process(self, records: list[Visit], ctx: Any) -> Iterator[Visit]:
        yield records[-1]


def later(left: Visit, right: Visit) -> Visit:
    return max(left, right, key=lambda visit: visit.at)


def minutes(visits: rh.KeyedStream) -> rh.WindowedStream:
    return visits.window(rh.Tumbling("1m"))


USES: dict[str, Callable[[rh.KeyedStream], rh.DataStream]] = {
    "running": lambda visits: visits.running(n=rh.agg.count()),
    "reduce": lambda visits: visits.reduce(later),
    "process": lambda visits: visits.process(Echo()),
    "process in order": lambda visits: visits.process(Echo(), order="event_time"),
    "window": lambda visits: minutes(visits).aggregate(n=rh.agg.count()),
    "window function": lambda visits: minutes(visits).process(Latest()),
}


def refusal(use: str, runtime: Any, parallelism: int) -> tuple[str, str]:
    """Return the error with which the job ends, and the expected one."""
    env = rh.Environment(parallelism, runtime=runtime)
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="at")
    visits = env.from_source(rh.collection(VISITS), watermark=watermark, name="visits")
    others = env.from_source(rh.collection(VISITS[:1]), watermark=watermark, name="others")
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    keyed = visits.union(others).key_by("page", "user")
    USES[use](keyed).collect("found")
    with pytest.raises(rh.InputError) as caught:
        env.execute()
    at = "" if use == "window" else ", 'at': 2"  # These windows read no column except the keys.
    return str(caught.value), (
        f"{__file__}:{line}: operator 'key_by': the key column 'user' is null\n  "
        f"record: {{'page': 'cart', 'user': None{at}}}\n  what to do: a row "
        "without a key cannot be routed to a subtask: before key_by(), drop such "
        "rows with .filter(col('user').is_not_null()), or fill in the key with "
        ".with_columns(col('user').fill_null(...))"
    )


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("use", USES)
def test_null_keys_are_refused_in_simulation(use: str, parallelism: int) -> None:
    given, expected = refusal(use, "simulated", parallelism)
    assert given == expected


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("use", "runtime", "parallelism"),
    [
        ("running", "batch", 1),
        ("window", "batch", 3),  # Combined before the shuffle.
        ("window function", "batch", 3),
        ("window", "continuous", 1),
        ("window", "continuous", 2),
    ],
)
def test_null_keys_are_refused_on_spark(use: str, runtime: str, parallelism: int) -> None:
    given, expected = refusal(use, runtime, parallelism)
    assert given == expected
