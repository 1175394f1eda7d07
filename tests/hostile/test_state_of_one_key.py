"""Rows of one key whose state doubles with each row: the job ends before they use up the worker's
memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import rheos as rh
from rheos.core.errors import InputError

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "ends_with", ["a step that never comes", "nothing", "what never comes in time"]
)
def test_partial_matches_that_double_with_each_row_end_the_job(ends_with: str) -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = [{"u": "x", "n": n, "at": BEGIN + timedelta(milliseconds=n)} for n in range(26)]
    stream = env.from_source(rh.collection(rows), watermark=rh.Watermark.monotonic(on="at"))
    pattern = rh.pattern.begin("a").one_or_more().allow_combinations()
    if ends_with == "a step that never comes":
        pattern = pattern.followed_by("z").where(rh.col("n") < 0)
    elif ends_with == "what never comes in time":
        pattern = pattern.not_followed_by("z").where(rh.col("n") < 0)
    stream.key_by("u").detect(pattern.within("1h")).collect("matches")
    with pytest.raises(InputError, match="one key has more than 100,000 partial matches") as caught:
        env.execute("doubling")
    assert caught.value.key == "'x'"
    assert "within" in (caught.value.hint or "")
