"""Open windows and timers of a key, from a checkpoint of a simulated job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import rheos as rh
from rheos.core.checkpoint.checkpoint_copies import newest_checkpoint
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.ops.savepoints.pending_by_key import OpenWindow, PendingForKey, kept_for_key
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.world import World


@dataclass
class Seen:
    user: str
    day: int
    at: int


class Later(rh.KeyedProcessFunction):
    """Function that sets a timer for each row, and deletes that of its first row."""

    first = rh.ValueState(int, default=0)

    def process_element(self, row: Seen, ctx: rh.KeyedContext) -> Iterator[Seen]:
        ctx.timers.register(row.at + 100)
        if self.first.value:
            ctx.timers.delete(self.first.value)
        else:
            self.first.value = row.at + 100
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Seen]:
        yield from ()


@pytest.fixture
def kept(tmp_path: Any) -> Callable[..., PendingForKey]:
    """Return a function that inspects a job which has read some rows and continues; its key is
    (user, day)."""
    rows = [("ada", 1, 3), ("bob", 1, 5), ("ada", 1, 12), ("ada", 2, 14), ("ada", 1, 23)]
    lines = [f'{{"user": "{u}", "day": {d}, "at": {at}}}\n' for u, d, at in rows]
    (tmp_path / "rows.jsonl").write_text("".join(lines))

    def ran(
        build: Callable[[rh.KeyedStream], rh.DataStream],
        key: Any = None,
        interval_ms: int | None = None,
        state: Backend = Backend.MEMORY,
    ) -> PendingForKey:
        env = rh.Environment(parallelism=2)
        at = rh.Watermark.monotonic(on="at", unit="ms")
        source = rh.files.source(f"{tmp_path}/*.jsonl", schema=Seen, discover="1s")
        keyed = env.from_source(source, at).key_by("user", "day")
        build(keyed).uid("op").sink_to(rh.collect_sink())
        config = JobConfig(
            job=JobId("job"),
            checkpoint=CheckpointConfig(interval_ms=interval_ms),
            until_now=True,
            state=StateConfig(state),
            history=None,
        )
        world = World(env.plan("job"), config, 1, requests=Requests(leave=1.0))
        world.run()
        taken = newest_checkpoint(world.store, JobId("job"))
        return kept_for_key(taken, OperatorId("op"), key)

    return ran


def windows(keyed: rh.KeyedStream) -> rh.DataStream:
    return keyed.window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())


def timers(keyed: rh.KeyedStream) -> rh.DataStream:
    return keyed.process(Later())


def test_open_windows_of_a_key(kept: Callable[..., PendingForKey]) -> None:
    every = kept(windows)
    assert every.columns == ("user", "day")
    assert every.window_size_ms == 10
    # Windows that have fired may still be in parts that have not been rewritten.
    assert [w for w in every.windows if w.end_ms > 20] == [OpenWindow(20, 30)]
    mine = kept(windows, {"user": "ada", "day": "1"})
    assert OpenWindow(20, 30) in mine.windows
    of_bob = kept(windows, {"user": "bob", "day": "1"}).windows
    assert [w for w in of_bob if w.end_ms > 20] == []
    assert kept(windows, {"user": "zoe", "day": "1"}).rows == 0


@pytest.mark.parametrize("interval_ms", [None, 1])
def test_timers_of_a_key(kept: Callable[..., PendingForKey], interval_ms: int | None) -> None:
    """Also if a later part of the state deletes timers of an earlier one."""
    found = kept(timers, {"user": "ada", "day": "1"}, interval_ms)
    assert found.timers_ms == (112, 123)
    assert (found.windows, found.window_size_ms, found.unread) == ((), None, ())
    assert kept(timers, None, interval_ms).timers_ms == (105, 112, 114, 123)


def test_an_incomplete_key_is_refused(kept: Callable[..., PendingForKey]) -> None:
    for key in ("ada", {"user": "ada"}, {"user": "ada", "days": "1"}):
        with pytest.raises(ConfigurationError, match=r"is not a key of the operator 'op'") as error:
            kept(windows, key)
        assert "--key user=...,day=..." in str(error.value)


def test_state_in_rocksdb_files_is_reported_as_unread(kept: Callable[..., PendingForKey]) -> None:
    found = kept(timers, None, None, Backend.ROCKSDB)
    assert found.rows == 0
    assert any("files of a database" in each for each in found.unread)
