"""Features: the rows for training have the values that were known at the time of each label."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.testing import simulate

START = datetime(2026, 1, 1, tzinfo=UTC)
MIXED = rh.Watermark.bounded_out_of_orderness("100ms", on="at")


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def purchases(rng: Random, rows: int) -> list[dict[str, Any]]:
    """Generate purchases, of which several have the same time, up to 100 ms out of order."""
    return [
        {
            "user": f"u{rng.randrange(5)}",
            "amount": rng.randrange(-9, 10),
            "at": at(n * 7 + rng.randrange(90)),
        }
        for n in range(rows)
    ]


def totals(rows: list[dict[str, Any]]) -> dict[str, list[tuple[datetime, int, int]]]:
    """Return by user the versions (time, total, n), in the order in which they are valid."""
    found: dict[str, list[tuple[datetime, int, int]]] = {}
    sums: dict[str, tuple[int, int]] = {}
    for row in rows:
        total, n = sums.get(row["user"], (0, 0))
        sums[row["user"]] = total + row["amount"], n + 1
        found.setdefault(row["user"], []).append((row["at"], *sums[row["user"]]))
    return {user: sorted(versions) for user, versions in found.items()}


def spend(stream: rh.DataStream, **arguments: Any) -> rh.ml.Features:
    totals = stream.key_by("user").running(total=rh.agg.sum("amount"), n=rh.agg.count())
    columns = ["total", "n"]
    return rh.ml.features("spend", totals, keys="user", columns=columns, **arguments)


@pytest.mark.parametrize(
    ("arguments", "delay_ms", "age_ms"),
    [({}, 0, 10**9), ({"delay": "60ms"}, 60, 10**9), ({"max_age": "25ms"}, 0, 25)],
)
def test_each_label_has_the_version_of_its_time(arguments: Any, delay_ms: int, age_ms: int) -> None:
    rng = Random(f"features {arguments}")
    rows = purchases(rng, 60)
    labels: list[dict[str, Any]] = [
        {"id": n, "user": f"u{rng.randrange(6)}", "at": at(n * 9)} for n in range(50)
    ]
    wanted = []
    for label in labels:
        ages = (timedelta(milliseconds=ms) for ms in (delay_ms, age_ms))
        least, most = ages
        known = [v for v in totals(rows).get(label["user"], ()) if v[0] <= label["at"] - least]
        then, total, n = known[-1] if known else (None, None, None)
        if then is not None and label["at"] - then > most:
            then, total, n = None, None, None
        wanted.append({**label, "total": total, "n": 0 if n is None else n, "spend_at": then})

    def build(env: rh.Environment) -> rh.DataStream:
        stream = env.from_source(rh.collection(rows), MIXED, name="purchases")
        times = rh.Watermark.monotonic(on="at")
        given = env.from_source(rh.collection(labels), times, name="labels")
        return rh.ml.training_rows(given, spend(stream, defaults={"n": 0}, **arguments))

    done = simulate(build, seeds=2, expected=wanted)
    assert {row["spend_at"] for row in wanted} > {None}
    assert done.out.schema.names == ["id", "user", "at", "total", "n", "spend_at"]


def test_results_of_windows_are_valid_from_the_end_of_the_window() -> None:
    rows = [{"user": "a", "at": at(ms)} for ms in (1, 5, 12, 31)]
    labels = [{"user": "a", "at": at(ms)} for ms in (8, 9, 19, 25, 39)]

    def build(env: rh.Environment) -> rh.DataStream:
        stream = env.from_source(rh.collection(rows), MIXED, name="purchases")
        counts = stream.key_by("user").window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())
        times = rh.Watermark.monotonic(on="at")
        given = env.from_source(rh.collection(labels), times, name="labels")
        return rh.ml.training_rows(given, [rh.ml.features("recent", counts, "user", columns=["n"])])

    found = simulate(build).out.to_pylist()
    values = [(row["at"], row["n"], row["recent_at"]) for row in sorted(found, key=lambda r: r["at"])]
    assert values == [
        (at(8), None, None),
        (at(9), 2, at(9)),
        (at(19), 1, at(19)),
        (at(25), 1, at(19)),
        (at(39), 1, at(39)),
    ]


def test_versions_of_one_millisecond_keep_the_order_of_finer_times() -> None:
    time = START + timedelta(microseconds=10)
    rows = [
        {"user": "a", "total": 9, "at": time},
        {"user": "a", "total": 1, "at": time + timedelta(microseconds=5)},
    ]

    def build(env: rh.Environment) -> rh.DataStream:
        stream = env.from_source(rh.collection(rows), MIXED, name="totals")
        labels = env.from_source(rh.collection([{"user": "a", "at": at(3)}]), MIXED, name="labels")
        return rh.ml.training_rows(labels, rh.ml.features("spend", stream, "user"))

    simulate(
        build, seeds=3, expected=[{"user": "a", "at": at(3), "total": 1, "spend_at": rows[1]["at"]}]
    )


WRONG: dict[str, tuple[Callable[[rh.DataStream], Any], str]] = {
    "a changelog": (
        lambda rows: rh.ml.features("f", rows.key_by("user").table(n=rh.agg.count()), "user"),
        "not a changelog",
    ),
    "a keyed stream": (lambda rows: rh.ml.features("f", rows.key_by("user"), "user"), "takes a stream"),  # type: ignore[arg-type]
    "a name": (lambda rows: rh.ml.features("user spend", rows, "user"), "must be an identifier"),
    "an unknown feature": (lambda rows: rh.ml.features("f", rows, "user", columns=["x"]), "'x'"),
    "a key as a feature": (
        lambda rows: rh.ml.features("f", rows, "user", columns=["user"]),
        "is a key",
    ),
    "no feature": (lambda rows: rh.ml.features("f", rows, ["user", "amount"]), "at least one feature"),
    "a default of no feature": (lambda rows: spend(rows, defaults={"x": 1}), "'x' is no feature"),
    "a default of another type": (
        lambda rows: spend(rows, defaults={"n": 1.5}),
        "default of 'n' is 1.5",
    ),
    "ages": (lambda rows: spend(rows, max_age="1s", delay="2s"), "no version would be joined"),
    "labels without a key": (
        lambda rows: rh.ml.training_rows(rows.select("at", "amount"), spend(rows)),
        "a key of the features 'spend'",
    ),
    "a taken name": (
        lambda rows: rh.ml.training_rows(rows.with_columns(n=1), spend(rows)),
        "already have a column 'n'",
    ),
    "no features": (lambda rows: rh.ml.training_rows(rows, []), "results of rh.ml.features"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_declarations_are_refused(case: str) -> None:
    build, message = WRONG[case]
    env = rh.Environment()
    rows = env.from_source(rh.collection([{"user": "a", "amount": 1, "at": at(1)}]), MIXED)
    with pytest.raises(RheosError, match=message) as raised:
        build(rows)
    assert str(raised.value).startswith(__file__)
