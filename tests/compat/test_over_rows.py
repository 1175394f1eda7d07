"""OVER resumes from the state that was stored as pickled tuples."""

from __future__ import annotations

from functools import cache

import pytest

from rheos.core.protocol.state_config import Backend
from tests.compat.over_rows import PLACE, program, snapshot
from tests.compat.worlds import Rows, begin


@cache
def whole() -> dict[str, Rows]:
    """Return the rows that a single run publishes."""
    kept = begin(program)
    kept.world.run()
    return kept.rows()


@pytest.mark.parametrize(
    ("parallelism", "backend"),
    [(1, Backend.ROCKSDB), pytest.param(3, Backend.MEMORY, marks=pytest.mark.slow)],
)
def test_a_job_resumes_from_a_savepoint(parallelism: int, backend: Backend) -> None:
    files, published = snapshot()
    assert sum(b"Remembered" in data for data in files.values()) >= len(published)
    kept = begin(
        program,
        files={f"{PLACE}/{path}": data for path, data in files.items()},
        from_savepoint=PLACE,
        published=published,
        parallelism=parallelism,
        backend=backend,
    )
    assert all(rows for rows in kept.rows().values())
    kept.world.run()
    for name, rows in whole().items():
        assert settled(kept.rows()[name]) == settled(rows), name


def settled(rows: Rows) -> list[str]:
    """Return the rows sorted. Variances were rounded at each row when the snapshot was written."""
    return sorted(repr({**row, "spread": round(row.get("spread") or 0, 12)}) for row in rows)
