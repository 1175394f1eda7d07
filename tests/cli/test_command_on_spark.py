"""The command as users start it: processes of its own, on a real Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

RHEOS = str(Path(sys.executable).parent / "rheos")
WITHIN_S = 120

ENDLESS = """
import rheos as rh
env = rh.Environment(parallelism=1)
source = rh.generator(lambda block: {"k": block.index() % 10}, rate_per_s=1000, splits=1)
numbers = env.from_source(source)
numbers.key_by("k").running(n=rh.agg.count()).filter(rh.col("n") < 0).print()
env.execute("endless")
"""


def test_ctrl_c_cancels_a_running_job(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(ENDLESS)
    process = subprocess.Popen([RHEOS, "run", str(file)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        try:
            for line in process.stderr:
                if "endless: running" in line:
                    break
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(WITHIN_S) == 130
        finally:
            process.kill()
    assert "endless cancelled" in rest
    assert rest.endswith("cancelled\n")
    assert "Traceback" not in rest


def test_a_benchmark_measures_and_ends() -> None:
    arguments = [
        "grouping",
        "--parallelism",
        "1",
        "--keys",
        "100",
        "--seconds",
        "0.5",
        "--warmup",
        "0.2",
    ]
    done = subprocess.run(
        [RHEOS, "bench", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    figures = json.loads(done.stdout)
    assert figures["records_per_s"] > 0
    assert figures["records_per_s_per_core"] == figures["records_per_s"]
    assert (
        0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p90"] <= figures["latency_ms"]["p99"]
    )
    assert 0 < figures["cpu_share"] <= 1.5
    assert figures["rss_mib"]["start"] > 0
    assert (figures["keys"], figures["checkpoints_completed"], figures["restarts"]) == (100, 0, 0)
