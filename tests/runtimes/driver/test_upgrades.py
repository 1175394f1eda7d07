"""A running job is changed in several ways at once: whole jobs in simulated worlds, with their sinks.

The changed program has one more aggregate in a window and in a running table, an operator under
another uid, and one sink less. Its output is compared with the rows that the generator produces."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import CheckpointError
from rheos.core.protocol.state_config import Backend, NewAggregates
from tests.compat.make_golden import MIDDLE_US, until
from tests.compat.programs import ROWS, SPLITS, START_MS, Outputs, source
from tests.compat.worlds import Kept, begin

NULL, SINCE = NewAggregates.NULL, NewAggregates.SINCE


class Number(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Any:
        self.n.value += 1
        yield {"k": row.k, "i": row.i, "n": self.n.value}


NUMBER = {"k": str, "i": int, "n": int}


def program(
    env: rh.Environment, *, uid: str = "old uid", more: bool = False, extra: bool = True
) -> Outputs:
    rows = source(env)
    keyed = rows.key_by("k")
    aggregates = {"n": rh.agg.count(), **({"high": rh.agg.max("i")} if more else {})}
    windows = keyed.window(rh.Tumbling("400ms")).aggregate(**aggregates).uid("windows")
    made: Outputs = {
        "windows": windows,
        "running": keyed.running(**aggregates).uid("running"),
        "numbered": keyed.process(Number(), returns=NUMBER).uid(uid),
    }
    if extra:
        made["extra"] = rows.filter(rh.col("small") == 3)
    return made


def changed(env: rh.Environment) -> Outputs:
    return program(env, uid="new uid", more=True, extra=False)


def windows() -> dict[tuple[str, float], set[int]]:
    """Return the row numbers of each key and window, by the window's end in seconds."""
    found: dict[tuple[str, float], set[int]] = defaultdict(set)
    for number in range(ROWS):
        key = "hot" if number % 4 == 0 else f"key {number // 40}"
        at_ms = START_MS + number // SPLITS * 10
        found[key, (at_ms // 400 + 1) * 400 / 1000].add(number)
    return found


@cache
def stopped(backend: Backend) -> tuple[Kept, str]:
    kept = begin(program, backend=backend)
    until(kept, MIDDLE_US)
    return kept, kept.job().savepoint("savepoints")


def continued(before: Kept, folder: str, **options: Any) -> Kept:
    files = {
        path: data for path, data in before.world.store.files.items() if path.startswith(f"{folder}/")
    }
    published = {name: dict(sink.published) for name, sink in before.sinks.items()}
    return begin(changed, files=files, from_savepoint=folder, published=published, **options)


@pytest.mark.parametrize(
    ("mode", "backend", "parallelism"),
    [(NULL, Backend.MEMORY, 3), pytest.param(SINCE, Backend.ROCKSDB, 1, marks=pytest.mark.slow)],
)
def test_several_changes_at_once_lose_nothing(
    mode: NewAggregates, backend: Backend, parallelism: int
) -> None:
    before, folder = stopped(backend)
    after = continued(
        before,
        folder,
        parallelism=parallelism,
        backend=backend,
        new_aggregates=mode,
        renamed={"old uid": "new uid"},
    )
    after.world.run()
    rows = after.rows()
    by_key: dict[str, list[int]] = defaultdict(list)
    for row in rows["numbered"]:
        by_key[row["k"]].append(row["n"])
    assert sum(map(len, by_key.values())) == ROWS
    # Its state was found under the new uid: no key is counted from the start.
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
    # Each window is emitted once, with the count of all its rows; the new aggregate follows the mode.
    wanted = windows()
    assert len(rows["windows"]) == len(wanted)
    seen = {row["i"] for row in before.sinks["numbered"].rows}
    kinds = {"closed": 0, "open": 0, "new": 0}
    for row in rows["windows"]:
        inside = wanted[row["k"], row["window_end"]]
        assert row["n"] == len(inside)
        if "high" not in row:
            kinds["closed"] += 1
            assert inside <= seen
        elif inside & seen:
            kinds["open"] += 1
            assert row["high"] == (None if mode is NULL else max(inside - seen, default=None))
        else:
            kinds["new"] += 1
            assert row["high"] == max(inside)
    assert min(kinds.values()) > 0, kinds
    # All rows that the removed sink received before the savepoint are published.
    assert {row["i"] for row in before.sinks["extra"].rows} == {i for i in seen if i % 7 == 3}


def test_each_change_is_refused_with_a_hint() -> None:
    before, folder = stopped(Backend.MEMORY)
    with pytest.raises(CheckpointError) as lacking:
        continued(before, folder).world.run()
    assert "--rename OLD=NEW" in str(lacking.value)
    with pytest.raises(CheckpointError) as open_windows:
        continued(before, folder, renamed={"old uid": "new uid"}).world.run()
    text = str(open_windows.value)
    assert "open windows lack the value of a new aggregate" in text
    assert "--new-aggregates null" in text
    assert "rheos check" not in text


def test_uncommitted_output_of_a_removed_sink_is_an_error() -> None:
    """A checkpoint lists output, and the job died before it was published. The changed program is
    refused, whatever is allowed, until the old program has published it."""
    kept = begin(program, interval_ms=10)
    until(kept, MIDDLE_US)
    again = begin(
        changed,
        files=dict(kept.world.store.files),
        allow_dropped=True,
        new_aggregates=NULL,
        renamed={"old uid": "new uid"},
    )
    with pytest.raises(CheckpointError, match="lists uncommitted output of sinks that the program"):
        again.world.run()
