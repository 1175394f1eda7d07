"""Plans that cannot run on bounded input are refused before anything runs."""

from __future__ import annotations

import inspect

import pytest

import rheos as rh
from rheos.runtimes.batch.bounded_plans import bounded_plan


def in_processing_time(rows: rh.DataStream) -> rh.DataStream:
    windows = rows.key_by("user").window(rh.Tumbling("1m", time="processing_time"))
    return windows.aggregate(n=rh.agg.count())


def test_processing_time_windows_are_refused_at_their_line() -> None:
    env = rh.Environment(1)
    in_processing_time(env.from_source(rh.collection([{"user": "ada"}]))).collect("n")
    with pytest.raises(rh.ProgramError, match="processing-time windows depend on when") as raised:
        bounded_plan(env.plan())
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
    assert raised.value.site.line == inspect.getsourcelines(in_processing_time)[1] + 2
    assert 'runtime="continuous"' in str(raised.value)
