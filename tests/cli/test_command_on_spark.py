"""The command as users start it: in a separate process, on a real Spark."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.deploy]

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


def test_a_running_job_is_not_started_twice(tmp_path: Path) -> None:
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
            told = rheos("events", "endless", "--trace")
            assert told.returncode == 0
            assert " RUNNING    AttemptRunning(attempt=1)" in told.stdout
            assert told.stdout.splitlines()[0].endswith("READING    Start() -> ReadLog()")
            second = rheos(*command)
            assert second.returncode == 2
            # The first line says that Spark starts.
            _, error = second.stderr.split("\n", 1)
            assert error.startswith(f"{file}:7: the job 'endless' in {directory} is being run")
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
    (note,) = directory.rglob("driver.json")
    assert json.loads(note.read_bytes())["outcome"] == "cancelled"


FINISHED = """
import rheos as rh
env = rh.Environment(parallelism=2, runtime="{runtime}")
rows = env.from_source(rh.collection([{{"k": 1, "n": n}} for n in range(10)]))
rows.key_by("k").running(n=rh.agg.count()).collect("rows")
print(env.execute("short").collected["rows"].num_rows)
"""


@pytest.mark.parametrize("runtime", ["continuous", "batch"])
def test_a_finished_job_ends_without_lines_of_spark(runtime: str, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(FINISHED.format(runtime=runtime))
    done = rheos("run", str(file))
    assert (done.returncode, done.stdout) == (0, "10\n")
    assert not re.search("ERROR|WARN|Exception|Traceback", done.stderr), done.stderr


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    processes = Started(tmp_path)
    yield processes
    processes.end()


def run(started: Started, file: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return started.command([RHEOS, "run", str(file), *arguments])


def test_ctrl_c_while_spark_starts_shows_no_trace(tmp_path: Path, started: Started) -> None:
    file = tmp_path / "job.py"
    file.write_text(ENDLESS)
    process = run(started, file)

    def jvm() -> bool:
        started.processes.look()
        return bool(started.processes.jvms())

    wait_for(jvm)
    process.send_signal(signal.SIGINT)
    assert process.wait(WITHIN_S) == 130, started.output(process)
    told = started.output(process)
    assert told.endswith("cancelled\n"), told
    assert "Traceback" not in told, told


@pytest.mark.slow
def test_the_error_names_a_jvm_that_was_killed(tmp_path: Path, started: Started) -> None:
    file = tmp_path / "job.py"
    file.write_text(ENDLESS)
    process = run(started, file)
    wait_for(lambda: "endless: running" in started.output(process))
    started.processes.look()
    (jvm,) = started.processes.jvms()
    jvm.kill()
    assert process.wait(WITHIN_S) == 1
    said = started.output(process)
    assert "the JVM of Spark's driver has ended, and the job with it: it was killed" in said
    assert "Traceback" not in said
    assert "Py4J" not in said


FINITE = """
import sys
import rheos as rh
env = rh.Environment(parallelism=1, runtime="continuous")
numbers = env.from_source(rh.generator(lambda block: {"k": block.index()}, count=10, splits=1))
numbers.sink_to(rh.files.sink(sys.argv[1]))
env.execute("finite")
"""


@pytest.mark.slow
def test_starting_a_finished_job_again_succeeds(tmp_path: Path, started: Started) -> None:
    file, out = tmp_path / "job.py", tmp_path / "out"
    file.write_text(FINITE)
    arguments = ["--checkpoint-dir", str(tmp_path / "checkpoints"), str(out)]
    first = run(started, file, *arguments)
    assert first.wait(WITHIN_S) == 0, started.output(first)
    published = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    again = run(started, file, *arguments)
    assert again.wait(WITHIN_S) == 0, started.output(again)
    assert "has already finished, so nothing was run" in started.output(again)
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")} == published


LEAVES = """
import os, signal
from dataclasses import dataclass
import rheos as rh

@dataclass
class Number:
    k: int

env = rh.Environment(
    parallelism=1, runtime="continuous", restart=rh.restart.fixed_delay(2, delay="10ms")
)
def last(row: Number) -> Number:
    if row.k == 5:
        {leave}
    return row
numbers = env.from_source(rh.generator(lambda block: {{"k": block.index()}}, count=10, splits=1))
numbers.map(last).collect("rows")
env.execute("leaves")
"""


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        ("os._exit(3)", "job.py:15: operator 'map(last)': SystemExit: os._exit(3)"),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGKILL)",
            "killed by signal 9 (SIGKILL))",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_function_that_kills_its_worker_is_named(
    leave: str, said: str, tmp_path: Path, started: Started
) -> None:
    file = tmp_path / "job.py"
    file.write_text(LEAVES.format(leave=leave))
    process = run(started, file)
    assert process.wait(WITHIN_S) == 1
    output = started.output(process)
    assert said in output
    assert "restarts 2" in output
    assert "Traceback" not in output
    assert "Py4J" not in output


@pytest.mark.slow
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
    metrics = json.loads(done.stdout)
    assert metrics["records_per_s"] > 0
    assert metrics["records_per_s_per_core"] == metrics["records_per_s"]
    assert (
        0 < metrics["latency_ms"]["p50"] <= metrics["latency_ms"]["p90"] <= metrics["latency_ms"]["p99"]
    )
    assert 0 < metrics["cpu_share"] <= 1.5
    assert metrics["rss_mib"]["start"] > 0
    assert (metrics["keys"], metrics["checkpoints_completed"], metrics["restarts"]) == (100, 0, 0)
