"""The payments example finds small payments that are followed by a large one of the same card."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl

EXAMPLE = Path(__file__).parents[2] / "examples" / "payments.py"


def test_each_alert_has_a_small_and_a_large_payment(tmp_path: Path) -> None:
    simulated = ("run", str(EXAMPLE), "--runtime", "simulated", "--for", "5s")
    command = [sys.executable, "-m", "rheos", *simulated, "--", "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=500, cwd=tmp_path)
    alerts = pl.read_parquet(tmp_path / "alerts" / "*.parquet")
    shops = pl.read_parquet(tmp_path / "per-shop" / "*.parquet")
    assert alerts.height > 0
    assert alerts.filter((pl.col("small") >= 1) | (pl.col("large") <= 500)).is_empty()
    assert shops["shop"].n_unique() == 6
