"""A user's function that calls sys.exit() fails the job with its line, in every operator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import rheos as rh
from tests.api.programs import events


class Leaves(rh.KeyedProcessFunction):
    def process_element(self, event: Any, ctx: rh.KeyedContext) -> Iterator[int]:
        sys.exit("enough")


def leave(row: Any) -> int:
    sys.exit(3)


def leave_all(frame: pl.DataFrame) -> pl.DataFrame:
    sys.exit(3)


def leave_both(left: Any, right: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.map(leave, returns={"n": int}),
        lambda stream: stream.flat_map(leave, returns={"n": int}),
        lambda stream: stream.map_batches(leave_all, returns=stream.schema),
        lambda stream: stream.key_by("user").reduce(leave_both),
        lambda stream: stream.key_by("user").process(Leaves(), returns={"n": int}),
    ],
)
def test_a_function_that_exits_fails_the_job_at_its_line(
    use: Callable[[rh.DataStream], rh.DataStream],
) -> None:
    env = rh.Environment(1, runtime="simulated")
    use(events(env)).collect("out")
    with pytest.raises(rh.UserFunctionError) as caught:
        env.execute()
    assert str(caught.value).startswith(f"{__file__}:")
    assert "SystemExit: " in caught.value.what
    assert "a user function must not end the program: return, or raise an" in str(caught.value.hint)
