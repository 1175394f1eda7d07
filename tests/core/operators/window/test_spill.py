"""Windows whose state exceeds the memory that they may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rheos.core import aggregates as agg
from rheos.core.errors import StateError
from rheos.core.graph.windows import Sliding, Tumbling, Window
from rheos.core.operators.window.panes import MemoryBudget
from tests.core.operators.window.harness import Bench, state_on_disk
from tests.core.operators.window.test_checkpoints import AGGREGATES, SCHEMA, rows

BUDGET = 80_000


def with_budget(bench: Bench, folder: str, size_bytes: int = BUDGET) -> Bench:
    for operator in bench.subtasks:
        operator.ctx.state_bytes, operator.ctx.scratch = size_bytes, folder
        operator.__init__(operator.ctx, operator._spec)  # type: ignore[misc]
        operator.open({})
    return bench


def results(bench: Bench) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in bench.out)


@pytest.mark.parametrize(
    "window",
    [
        Tumbling("100ms"),
        pytest.param(Sliding("100ms", every="50ms"), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_state_larger_than_the_limit_has_the_same_results_within_it(
    window: Window, tmp_path: Path
) -> None:
    plain = Bench.of_aggregates(window, AGGREGATES, SCHEMA)
    bench = with_budget(Bench.of_aggregates(window, AGGREGATES, SCHEMA), str(tmp_path / "state"))
    (operator,) = bench.subtasks
    most = 0
    for at in range(25):
        came = rows(1000 + at, keys=1000, until=150)
        bench.rows(came)
        plain.rows(came)
        held = sum(store.memory_bytes for store in operator._stores())
        assert held <= BUDGET
        most = max(most, sum(segment.size_bytes for store in operator._stores() for segment in store))
    assert most > 10 * BUDGET
    for watermark in (80, 1000):
        bench.watermark(watermark)
        plain.watermark(watermark)
    assert results(bench) == results(plain)
    assert not os.listdir(tmp_path / "state"), "what is purged goes from the disk"


def test_a_window_is_fired_in_parts_that_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench.of_aggregates(Tumbling("1s"), {"median": agg.quantile("v", 0.5)}, SCHEMA)
    with_budget(bench, str(tmp_path))
    for at in range(16):
        bench.rows(rows(2000 + at, keys=500, until=1000))
    (operator,) = bench.subtasks
    gathered: list[int] = []
    for store in operator._stores():
        inside = store.gather

        def gather(*given: Any, inside: Any = inside) -> list[Any]:
            frames = inside(*given)
            gathered.append(sum(int(frame.estimated_size()) for frame in frames))
            return frames

        monkeypatch.setattr(store, "gather", gather)
    assert len(bench.end()) == 500
    assert sum(gathered) > 8 * BUDGET
    assert max(gathered) < BUDGET


def test_large_state_is_written_in_pieces_and_restored(tmp_path: Path) -> None:
    plain = Bench.of_aggregates(Tumbling("1s"), AGGREGATES, SCHEMA)
    bench = with_budget(Bench.of_aggregates(Tumbling("1s"), AGGREGATES, SCHEMA), str(tmp_path))
    for at in range(16):
        came = rows(1000 + at, keys=3000, until=1500)
        bench.rows(came)
        plain.rows(came)
    written = bench.checkpoint()
    tables = written["values.v"]
    assert len(tables) > 5
    assert max(table.nbytes for table in tables) < BUDGET
    bench.restore(bench.chains, 3)
    for some in (bench, plain):
        some.end()
    assert results(bench) == results(plain)


def test_a_snapshot_can_be_read_after_its_state_was_purged() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), {"rows": agg.count()}, SCHEMA)
    with state_on_disk(bench):
        bench.rows(rows(50, keys=9, until=10))
        (part,) = (p for p in bench.subtasks[0].snapshot(1).parts if p.state == "totals")  # type: ignore[arg-type]
        bench.end()
        assert sum(sum(table["rows"].to_pylist()) for table in part.write()) == 50
        del part


def test_without_a_disk_all_state_stays_in_memory() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), {"rows": agg.count()}, SCHEMA)
    operator = bench.subtasks[0]
    assert operator._memory == MemoryBudget(operator.ctx.state_bytes, None)


def test_a_failing_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = Bench.of_aggregates(Tumbling("10ms"), {"rows": agg.count()}, SCHEMA)
    with_budget(bench, str(tmp_path / "file" / "state"), 0)
    with pytest.raises(StateError, match=r"could not be written to the local disk: .*file"):
        bench.rows(rows(50, keys=9, until=10))


@pytest.mark.parametrize("content", [None, b"what others left"])
def test_missing_files_are_named(tmp_path: Path, content: bytes | None) -> None:
    bench = Bench.of_aggregates(Tumbling("1s"), {"rows": agg.count()}, SCHEMA)
    with_budget(bench, str(tmp_path), 0)
    bench.rows(rows(10, keys=2, until=100))
    for path in tmp_path.iterdir():
        path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(StateError, match=r"could not be read from the local disk: .*"):
        bench.end()


def test_columns_of_all_types_are_read_back(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.float64())])
    bench = Bench.of_aggregates(Tumbling("10ms"), {"v": agg.sum("v")}, schema)
    with_budget(bench, str(tmp_path), 0)
    # Sums of different magnitude have other columns, in files of their own.
    for at, value in enumerate([1.0, 1e300, 1e-300, 5e-324, 1e15] * 20):
        bench.rows([{"k": "ab"[at % 2], "v": value, "ts": 0}])
    assert [row["v"] for row in bench.end()] == [1e301, 1e301]
