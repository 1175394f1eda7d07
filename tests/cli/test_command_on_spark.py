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
WITHIN_S = 400

ENDLESS = """
import rheos as rh
env = rh.Environment(parallelism=1)
source = rh.generator(lambda block: {"k": block.index() % 10}, rate_per_s=1000, splits=1)
numbers = env.from_source(source)
numbers.key_by("k").running(n=rh.agg.count()).filter(rh.col("n") < 0).print()
env.execute("endless")
"""


def rheos(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RHEOS, *arguments], capture_output=True, text=True, timeout=WITHIN_S)


def test_a_running_job_is_found_and_not_started_twice_and_ctrl_c_cancels_it(tmp_path: Path) -> None:
    file, directory = tmp_path / "job.py", tmp_path / "checkpoints"
    file.write_text(ENDLESS)
    command = ["run", str(file), "--checkpoint-dir", str(directory)]
    process = subprocess.Popen([RHEOS, *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        try:
            for line in process.stderr:
                if "endless: running" in line:
                    break
            (job,) = json.loads(rheos("jobs", "--json").stdout)
            assert (job["id"], job["state"], job["pid"]) == ("endless", "running", process.pid)
            second = rheos(*command)
            assert second.returncode == 2
            assert second.stderr.startswith(f"{file}:7: the job 'endless' in {directory} is being run")
            assert "rheos cancel endless" in second.stderr
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(WITHIN_S) == 130
        finally:
            process.kill()
    assert "endless cancelled" in rest
    assert rest.endswith("cancelled\n")
    assert "Traceback" not in rest
    assert json.loads(rheos("jobs", "--json").stdout) == []
    assert list(directory.rglob("driver.json")) == []


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
