"""The programs of docs/delta.md, in their order: a job writes the table that the others query."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "delta.md"


ROWS = "count=6_000, rate_per_s=100"


def run(file: str) -> None:
    """Run the program of this name, with fewer rows."""
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    assert file != "orders.py" or ROWS in code
    with applied(Overrides((from_command({"runtime": "simulated"}),))):
        exec(compile(code.replace(ROWS, "count=600"), file, "exec"), {})


def test_a_job_writes_a_table_that_others_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("orders.py")
    run("totals.py")
    assert pl.read_delta("lake/totals").sort("shop").rows() == [(0, 9.0), (1, 11.0), (2, 13.0)]
    run("shops.py")
    changes = capsys.readouterr().out
    assert "{'shop': 2, 'total': 13.0, 'op': 'insert'}" in changes
    run("of_shop.py")
    assert "200 orders" in capsys.readouterr().out
    run("compacted.py")
    assert pl.read_delta("lake/readings")["n"].sort().to_list() == list(range(100))
    run("by_shop.py")
    by_shop = capsys.readouterr().out
    run("largest.py")
    largest = capsys.readouterr().out
    for shop in range(3):
        totals = [number * 0.5 for number in range(shop, 600, 3)]
        assert str(sum(totals)) in by_shop, by_shop
        assert shop == 2 or str(totals[-1]) in largest, largest


def test_no_program_is_overlooked() -> None:
    tested = Path(__file__).read_text()
    assert all(f'run("{step.file}"' in tested for step in steps(PAGE) if step.file)
