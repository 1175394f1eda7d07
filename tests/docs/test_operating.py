"""The walk of docs/operating.md, as it stands there: its files written, its commands run in one shell,
on a real local Spark; and what the jobs of the walk have published is there once.

The page's programs are those behind `<!-- file: name -->`. A command that ends in `&` starts a driver;
the next one that does not waits until every job has completed a checkpoint.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell, has_checkpoint, steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
CUSTOMERS, AMOUNTS = 10, 7


def wait_for_checkpoints(jobs: int, folder: Path) -> None:
    """Wait until this number of jobs has completed a checkpoint."""
    try:
        wait_for(lambda: sum(map(has_checkpoint, Registry().records())) >= jobs, WITHIN_S)
    except AssertionError:
        logs = {log.name: log.read_text() for log in folder.glob("*.log")}
        raise AssertionError(f"{jobs} jobs do not run: {logs}") from None


def published(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "*.parquet").sort("customer", "orders")


def counts(rows: pl.DataFrame) -> dict[int, int]:
    return {customer: rows.filter(customer=customer).height for customer in range(CUSTOMERS)}


def check_once(rows: pl.DataFrame) -> None:
    """Check that every customer's orders are counted from the first one without a gap, as the two
    splits begin."""
    for customer in range(CUSTOMERS):
        own = rows.filter(customer=customer)
        assert own["orders"].to_list() == list(range(1, own.height + 1))
        amounts = own["amount"].diff().fill_null(own["amount"][0]).to_numpy()
        made = (customer + CUSTOMERS * np.arange(own.height)) % AMOUNTS
        # How often each amount is among the first so many of a split: of one and the other it is all.
        among = np.vstack([np.zeros(AMOUNTS, int), np.eye(AMOUNTS, dtype=int)[made].cumsum(axis=0)])
        given = np.bincount(amounts, minlength=AMOUNTS)
        assert (among + among[::-1] == given).all(axis=1).any()


@pytest.mark.spark
@pytest.mark.deploy
def test_the_walk_of_the_page_runs(shell: Shell, tmp_path: Path) -> None:
    jobs = 0
    printed = {}
    at_savepoint: pl.DataFrame | None = None
    for step in steps(PAGE):
        if step.file is not None:
            (tmp_path / step.file).write_text(step.code)
            continue
        starts = step.code.endswith("&\n")
        if not starts:
            wait_for_checkpoints(jobs, tmp_path)
        printed[step.code] = shell.run(step.code)
        jobs += starts - len(re.findall("rheos (?:stop|cancel)", step.code))
        if "rheos stop orders --savepoint" in step.code:
            # All up to the savepoint is published when the command returns, and nothing after it.
            at_savepoint = published(tmp_path / "out")

    assert at_savepoint is not None
    assert Registry().records() == []
    before = counts(at_savepoint)
    check_once(at_savepoint)
    after = published(tmp_path / "out")
    check_once(after)
    assert after.height > at_savepoint.height
    # The new operator has had just the orders that the savepoint had not.
    new = after.with_columns(order=pl.col("amount").diff().over("customer"))
    new = new.filter(pl.col("orders") > pl.col("customer").replace_strict(before))
    assert published_large(tmp_path / "out-large") == new.filter(order=AMOUNTS - 1).height
    # The fork has counted on from the savepoint, too, and by itself.
    fork = published(tmp_path / "fork")
    for customer, counted in before.items():
        own = fork.filter(customer=customer)
        assert own["orders"].to_list() == list(range(counted + 1, counted + own.height + 1))
    assert fork.height > 0
    (look,) = [
        text for code, text in printed.items() if code.startswith("rheos jobs\nrheos checkpoints")
    ]
    assert "orders" in look
    assert "running" in look
    (savepoint,) = [
        text for code, text in printed.items() if code.startswith("SAVEPOINT=$(rheos savep")
    ]
    assert (Path(savepoint.strip()) / "savepoint.json").is_file()


def published_large(folder: Path) -> int:
    return pl.read_parquet(folder / "*.parquet").height


def test_no_block_is_overlooked() -> None:
    text = PAGE.read_text()
    assert len(steps(PAGE)) == text.count("```python") + text.count("```sh\n") > 8
    assert all(step.file is not None for step in steps(PAGE) if "import rheos" in step.code)
