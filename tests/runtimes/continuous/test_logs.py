"""Lines that functions log in Spark's workers are in the job's log, with operator and subtask."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.ops.control.job_logs import log_folder, newest_lines


@pytest.mark.spark
def test_functions_log_with_operator_and_subtask(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))

    class Price(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            logging.getLogger("shop").info("opened")

        def __call__(self, row: Any) -> Any:
            if row.n == 3:
                logging.getLogger("shop").info("a bad price in %d", row.n)
            if row.n == 9 and ctx_attempt() == 1:
                logging.getLogger("shop").error("about to fail")
                raise ConnectionError("away")
            return {"n": row.n}

    failed = tmp_path / "failed"

    def ctx_attempt() -> int:
        if failed.exists():
            return 2
        failed.touch()
        return 1

    restart = rh.restart.fixed_delay(3, delay="10ms")
    env = rh.Environment(2, spark=spark, runtime="continuous", restart=restart)
    rows = env.from_source(rh.collection([{"n": n} for n in range(10)]))
    rows.map(Price(), returns={"n": int}).name("price").collect("prices")
    env.execute("prices")
    (path,) = log_folder().glob("*.jsonl")
    lines = newest_lines(path, 100)
    assert {line.job.partition("-")[0] for line in lines} == {"prices"}
    of_shop = [line for line in lines if line.logger == "shop"]
    assert {line.operator for line in of_shop} == {"price"}
    opened = {(line.attempt, line.subtask) for line in of_shop if line.message == "opened"}
    assert opened == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert "a bad price in 3" in {line.message for line in of_shop}
    (last,) = [line for line in of_shop if line.level == "error"]
    said = [line.message for line in lines if line.subtask is None]
    assert (last.attempt, said[-1]) == (1, "the job 'prices' is finished")
    assert any("the job 'prices' restarts (for the 1st time)" in message for message in said)
