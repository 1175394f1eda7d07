"""Published features: look-ups return the values of one checkpoint, with defaults for the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.views.answers import FeatureRequest
from rheos.runtimes.views.feature_answers import MAX_KEYS
from tests.runtimes.views.jobs import Started, reached

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS, USERS = 200, 5
CRASHES = Faults(crash_slot=2.0, crash_driver=1.0, store_error=0.05, lose_message=0.05)


def purchases(block: rh.Block) -> pl.DataFrame:
    """Return a purchase of each millisecond. Every third one is 4 ms late."""
    index = pl.Series("v", block.index())
    at = pl.lit(START) + pl.duration(milliseconds=index - pl.when(index % 3 == 0).then(4).otherwise(0))
    return pl.DataFrame([index]).select("v", at.alias("at"), user="u" + (index % USERS).cast(pl.String))


def published(**runtime: Any) -> SimulatedJob:
    """Start a job that publishes the latest purchase of each user, for 20 ms."""
    env = rh.Environment(2, max_parallelism=16, runtime=Started(**runtime))
    watermark = rh.Watermark.bounded_out_of_orderness("10ms", on="at")
    source = rh.generator(purchases, count=ROWS, rate_per_s=1000, splits=1)
    rows = env.from_source(source, watermark)
    rh.ml.features("last", rows, "user", max_age="20ms", defaults={"v": -1}).publish()
    job = env.execute_async("shop")
    assert isinstance(job, SimulatedJob)
    return job


def versions(user: int) -> list[tuple[datetime, int]]:
    rows = (v for v in range(ROWS) if v % USERS == user)
    return sorted((START + timedelta(milliseconds=v - 4 * (v % 3 == 0)), v) for v in rows)


@pytest.mark.parametrize("faults", [None, CRASHES])
def test_answers_are_the_latest_versions_that_the_watermark_has_passed(faults: Faults | None) -> None:
    job = published(faults=faults, seed=11)
    reached(job, 2)
    reads = rh.query(job).features("last")
    users = [f"u{n}" for n in range(USERS)]
    rows = reads.get_many(users, at=START).table.to_pylist()
    assert [row["user"] for row in rows] == users
    assert {row["last_status"] for row in rows} == {"fresh"}
    assert max(row["last_at"] for row in rows) > START
    for user, row in enumerate(rows):
        known = [version for version in versions(user) if version[0] <= row["last_at"]]
        assert (row["last_at"], row["v"]) == known[-1]
    job.wait()
    last = {row["user"]: row["v"] for row in reads.get_many(users, at=START).table.to_pylist()}
    assert last == {f"u{user}": versions(user)[-1][1] for user in range(USERS)}


def test_missing_and_stale_values_are_replaced_by_the_defaults() -> None:
    job = published()
    job.wait()
    reads = rh.query(job).features("last")
    then, v = versions(1)[-1]
    most = then + timedelta(milliseconds=20)
    assert reads.get("u1", at=most) == {
        "user": "u1",
        "v": v,
        "last_at": then,
        "last_status": "fresh",
        "asked_at": most,
    }
    stale = reads.get(user="u1", at=most + timedelta(milliseconds=1))
    assert (stale["v"], stale["last_at"], stale["last_status"]) == (-1, then, "stale")
    assert reads.get(user="u1")["last_status"] == "stale"
    missing = reads.get_many(["nobody", {"user": "u1"}, "nobody"], at=most).table.to_pylist()
    assert [row["last_status"] for row in missing] == ["missing", "fresh", "missing"]
    assert [row["v"] for row in missing] == [-1, v, -1]
    page = job.features(FeatureRequest(features="last", keys='["u1"]', at=most.isoformat()))
    assert page.rows[0]["v"] == v
    assert page.text().splitlines()[0].split() == ["user", "v", "last_at", "last_status", "asked_at"]


@pytest.mark.parametrize(
    ("name", "keys", "at", "message"),
    [
        ("first", '["u1"]', None, "has no view 'first'"),
        ("last", "u1", None, "'u1' is not a list of keys"),
        ("last", "[]", None, f"from 1 to {MAX_KEYS} keys"),
        ("last", "[7]", None, "is a string, not 7"),
        ("last", '[["u1", 2]]', None, "whose key is"),
        ("last", '["u1"]', "noon", "'noon' is not a time"),
    ],
)
def test_wrong_look_ups_are_refused(name: str, keys: str, at: str | None, message: str) -> None:
    job = published()
    reached(job, 1)
    with pytest.raises(ConfigurationError, match=message):
        job.features(FeatureRequest(features=name, keys=keys, at=at))


def test_a_key_in_two_forms_is_refused() -> None:
    reads = rh.query(published()).features("last")
    with pytest.raises(ConfigurationError, match="both by position and by name"):
        reads.get("u1", user="u2")
    with pytest.raises(ConfigurationError, match="cannot be a key"):
        reads.get_many([object()])


def test_a_view_without_terms_has_no_features() -> None:
    env = rh.Environment(2, max_parallelism=16, runtime=Started())
    source = rh.generator(purchases, count=ROWS, rate_per_s=1000, splits=1)
    env.register("clicks", env.from_source(source))
    env.sql_script("CREATE MATERIALIZED VIEW n AS SELECT user, COUNT(*) AS n FROM clicks GROUP BY user")
    job = env.execute_async("shop")
    assert isinstance(job, SimulatedJob)
    reached(job, 1)
    with pytest.raises(ConfigurationError, match="has no features"):
        rh.query(job).features("n").get("u1")
