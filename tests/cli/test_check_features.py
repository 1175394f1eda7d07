"""`rheos check-features` prints the comparison, and its exit status tells the result."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from rheos.cli.main import app

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [
    {"user": user, "total": total, "spend_at": NOON, "asked_at": NOON + timedelta(minutes=n)}
    for n, (user, total) in enumerate([("ada", 3), ("bo", 4)])
]


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    path = folder / name
    path.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), path / "part.parquet")
    return str(path)


def checked(*arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["check-features", *arguments, "--keys", "user"])
    return ran.exit_code, ran.stdout, ran.stderr


def test_equal_answers_exit_with_zero_and_others_name_the_first_difference(tmp_path: Path) -> None:
    served = written(tmp_path, "served", [{**row, "spend_status": "fresh"} for row in ROWS])
    equal = written(tmp_path, "equal", ROWS)
    assert checked(served, equal) == (0, "2 of 2 answers are equal (100.00%)\n", "")
    other = written(tmp_path, "other", [ROWS[0], {**ROWS[1], "total": 5}])
    code, printed, _ = checked(served, other)
    assert code == 1
    assert printed.splitlines() == [
        "1 of 2 answers are equal (50.00%)",
        "1 changed: the same version has other values",
        "",
        "first changed: the same version has other values",
        "  user='bo' at 2026-01-01 12:01:00+00:00, feature 'total'",
        "  served  4 of 2026-01-01 12:00:00+00:00",
        "  trained 5 of 2026-01-01 12:00:00+00:00",
    ]
    code, printed, _ = checked(served, other, "--json")
    found = json.loads(printed)
    assert (code, found["share"], found["counts"], found["first"]["key"]) == (
        1,
        0.5,
        {"changed": 1},
        {"user": "bo"},
    )


def test_files_that_cannot_be_compared_are_errors(tmp_path: Path) -> None:
    rows = written(tmp_path, "rows", ROWS)
    assert checked(rows, "nowhere")[0] == 2
    code, _, error = checked(rows, rows)
    assert code == 2
    assert "has the answers of 0 features" in error
    broken = tmp_path / "broken.parquet"
    broken.write_text("no Parquet")
    assert "cannot be read as Parquet" in checked(str(broken), rows)[2]
