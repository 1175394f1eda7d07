"""The dashboard reruns a job's program in a separate process: REST returns its answer. The process
is ended if it takes too long or writes too much."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rheos.cli.replay_process import answered, forked_program
from rheos.core.errors import ConfigurationError, InternalError, TransportError, UserFunctionError
from rheos.core.protocol.ids import JobId
from rheos.ops.control.processes import _started_s, this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.started_program import program_of
from rheos.ops.dashboard import replays
from rheos.ops.dashboard.replays import (
    AskedReplay,
    BusyError,
    DebugRequest,
    ForkRequest,
    ReplayProcesses,
    ReplayRequest,
    WhyNotRequest,
    WhyRequest,
)
from tests.ops.dashboard.conftest import Asking
from tests.ops.forks.stopped_job import FORBIDDEN, PROGRAM, digest, stopped, write_input
from tests.waiting import wait_for

WHY = {"sink": "windows", "row": {"user": "ada", "amount": 6}}


def record(**given: Any) -> JobRecord:
    facts = {"key": "k1", "job": JobId("orders"), "name": "orders", "process": this_process()}
    facts |= {"runtime": "continuous", "checkpoint_dir": "kept", "started_ms": 0}
    return JobRecord(**{**facts, "endpoint": "tcp://127.0.0.1:1", "token": "t", **given})


# --- over REST, of a running job
# ------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the key of a job whose input continues after its newest checkpoint."""
    folder = tmp_path / "orders"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    Path("job.py").write_text(PROGRAM)
    write_input("1", ("ada", 5, 1), ("bob", 1, 12), ("ada", 2, 13))
    stopped("job.py")
    write_input("2", ("ada", 4, 14), ("bob", 7, 15), ("ada", 1, 21), ("bob", 1, 35))
    Path("job.py").write_text(FORBIDDEN.replace("Forbidden()", "(print('to stdout'), Forbidden())[1]"))
    program = program_of(folder / "job.py", [], {})
    Registry().add(record(checkpoint_dir=str(folder / "kept"), program=program))
    return "k1"


def test_why_finds_the_input_of_a_row(asking: Asking, orders: str) -> None:
    before = digest(Path("kept"))
    status, found = asking.post(f"/jobs/{orders}/why", WHY)
    assert (status, found["matches"]) == (200, 1), found
    (input,) = found["rows"][0]["inputs"]
    assert (Path(input["split"]).name, input["unit"], input["place"]) == ("2.jsonl", "line", 1)
    assert digest(Path("kept")) == before
    assert [line["outcome"] for line in asking.audited()] == ["asked for", "done"]


def test_invalid_requests_are_refused_before_a_replay(asking: Asking) -> None:
    path = f"/jobs/{asking.key()}"
    for of, body in (("why", {**WHY, "rows": 0}), ("debug", {"key": 7}), ("fork", {"seconds": -1})):
        assert asking.post(f"{path}/{of}", body)[0] == 400
    assert asking.refused(f"{path}/why-not") == (400, "an operator must be specified")
    assert asking.audited() == []


# --- work of the process, in this one
# ------------------------------------------------------------------


def found(operation: str, job: str, asked: ReplayRequest) -> Any:
    said = answered(AskedReplay(operation, job, msgspec.Raw(msgspec.json.encode(asked))))
    if said.error is not None:
        raise said.error.error()
    return msgspec.json.decode(msgspec.json.encode(said.found))


def test_errors_equal_those_of_the_command(orders: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the job 'orders' has no sink 'alerts'\n.*bad, windows"
    ):
        found("why", orders, WhyRequest(sink="alerts", row={}))
    Path("v2.py").write_text("import sys; sys.exit('no')")
    with pytest.raises(UserFunctionError, match=r"the program raised SystemExit: no"):
        found("fork", orders, ForkRequest(file="v2.py"))
    Path("job.py").write_text("")
    with pytest.raises(ConfigurationError, match=r"has changed since the job"):
        found("why", orders, WhyRequest(sink="windows", row={}))


def test_a_key_is_replayed(orders: str) -> None:
    replayed = found("debug", orders, DebugRequest(key="ada"))
    assert [step["row"]["amount"] for step in replayed["steps"] if step["row"]] == [4, 1]
    assert all("before" not in step and "changes" in step for step in replayed["steps"])


def test_a_fork_compares_other_parameters_with_the_job(orders: str) -> None:
    assert not found("fork", orders, ForkRequest(parameters={"least": "2"}))["alike"]
    with pytest.raises(ConfigurationError, match="both sides of the comparison would be the running"):
        found("fork", orders, ForkRequest())


def test_why_not_is_answered_by_the_job(asking: Asking) -> None:
    standing = found("why-not", asking.key(), WhyNotRequest(operator="map"))
    assert (standing["operator"]["name"], standing["watermark_ms"]) == ("map", None)


@pytest.mark.parametrize("file", ["../outside.py", "/etc/passwd", "none.py", "link.py", "in"])
def test_a_program_outside_the_jobs_folder_is_not_run(orders: str, file: str) -> None:
    Path("../outside.py").touch()
    Path("link.py").symlink_to("../outside.py")
    with pytest.raises(
        ConfigurationError, match=r"the file .* does not exist in the folder where the job was"
    ):
        forked_program(orders, ForkRequest(file=file))
    assert forked_program(orders, ForkRequest(file="job.py")) == Path("job.py").resolve()


# --- the process --------------------------------------------------------------------------------------


@pytest.fixture
def asks() -> Iterator[ReplayProcesses]:
    made = ReplayProcesses()
    yield made
    made.close()


def runs(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(replays, "REPLAY_COMMAND", (sys.executable, "-c", program))


def request(seconds: float = 60.0) -> WhyRequest:
    return msgspec.convert({**WHY, "seconds": seconds}, WhyRequest)


def test_a_replay_that_takes_too_long_is_ended(
    asks: ReplayProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(TransportError, match=r"took longer than 0\.1 s"):
        asks.ask("why", record(), request(0.1))


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("print('no answer')", InternalError),
        ("print('{}')", InternalError),
        ("import os; os.kill(os.getpid(), 9)", InternalError),
        ("print('[' * 100_000)", InternalError),
        ("print('x' * (20 << 20))", ConfigurationError),
    ],
)
def test_an_invalid_answer_of_a_replay_is_an_error(
    asks: ReplayProcesses, monkeypatch: pytest.MonkeyPatch, program: str, error: type[Exception]
) -> None:
    runs(monkeypatch, program)
    with pytest.raises(error):
        asks.ask("why", record(), request())


def test_a_job_has_one_replay_at_a_time(
    asks: ReplayProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "pid"
    write = f"import os, pathlib; pathlib.Path({str(said)!r}).write_text(str(os.getpid()))"
    runs(monkeypatch, f"{write}; import time; time.sleep(600)")
    ended: list[Exception] = []

    def ask() -> None:
        try:
            asks.ask("why", record(), request())
        except Exception as error:
            ended.append(error)

    first = threading.Thread(target=ask)
    first.start()
    wait_for(lambda: said.exists() and said.read_text() != "", 20)
    with pytest.raises(BusyError, match="for an earlier request"):
        asks.ask("debug", record(), request())
    asks.close()
    first.join(20)
    assert [type(error) for error in ended] == [InternalError]
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.read_text()), 0)


def sleeps(said: Path) -> str:
    """Return a program that starts another one, writes the process ids of both, and sleeps."""
    return (
        "import os, pathlib, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"new = pathlib.Path({str(said)!r} + '.new')\n"
        "new.write_text(f'{os.getpid()} {other.pid} {os.getppid()}')\n"
        f"new.rename({str(said)!r})\n"
        "time.sleep(600)"
    )


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


DASHBOARD = """
import sys
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord
from rheos.ops.dashboard import replays
replays.REPLAY_COMMAND = (sys.executable, "-c", sys.argv[1])
job = JobRecord(key="k", job="j", name="j", process=this_process(), runtime="continuous",
    checkpoint_dir=None, started_ms=0, endpoint="", token="")
replays.ReplayProcesses().ask("why", job, replays.WhyRequest(sink="s", row={}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells of a parent's death")
@pytest.mark.parametrize("killed", ["dashboard", "guard"])
def test_a_replay_ends_with_a_killed_dashboard(tmp_path: Path, killed: str) -> None:
    said = tmp_path / "pids"
    dashboard = subprocess.Popen([sys.executable, "-c", DASHBOARD, sleeps(said)])
    wait_for(said.exists, 60)
    replay, other, guard = map(int, said.read_text().split())
    try:
        os.kill(dashboard.pid if killed == "dashboard" else guard, signal.SIGKILL)
        # If only the guard is killed, processes that the program started continue to run.
        for pid in (replay, guard, *([other] if killed == "dashboard" else [])):
            wait_for(lambda pid=pid: has_ended(pid), 60)
    finally:
        dashboard.kill()
        dashboard.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)


def test_a_replay_that_takes_too_much_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = ReplayProcesses(memory_bytes=64 << 20)
    runs(monkeypatch, "import time; held = b'x' * (128 << 20); time.sleep(600)")
    with pytest.raises(ConfigurationError, match=r"took more than 64 MiB of memory\n.*--replay-memory"):
        asks.ask("why", record(), request())
    asks.close()


def test_processes_of_a_replay_end_with_it(
    asks: ReplayProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "pids"
    runs(monkeypatch, sleeps(said).removesuffix("time.sleep(600)"))
    with pytest.raises(InternalError, match="without an answer"):
        asks.ask("why", record(), request())
    assert all(map(has_ended, map(int, said.read_text().split())))


def test_a_replay_runs_in_the_environment_of_the_job(
    asks: ReplayProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has the job's interpreter, folder and environment, and nothing of the dashboard's."""
    job = subprocess.Popen(["sleep", "600"], env={"OF_THE_JOB": "1", "PATH": os.environ["PATH"]})
    try:
        shadow = tmp_path / "select.py"
        shadow.write_text("raise AssertionError('a module of the folder stood for one of Python')")
        program = msgspec.structs.replace(
            program_of(shadow, [], {}),  # type: ignore[type-var]
            folder=str(tmp_path),
            interpreter=str(tmp_path / "python"),
        )
        (tmp_path / "python").symlink_to(sys.executable)
        monkeypatch.setenv("OF_THE_DASHBOARD", "1")
        monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
        found = "[sys.executable, os.getcwd(), *os.environ]"
        show = f"import json, os, sys; print(json.dumps({{'found': {found}}}))"
        monkeypatch.setattr(replays, "REPLAY_COMMAND", (sys.executable, "-P", "-c", show))
        process = msgspec.structs.replace(
            this_process(), pid=job.pid, started_s=_started_s(psutil.Process(job.pid))
        )
        interpreter, folder, *names = msgspec.json.decode(
            asks.ask("why", record(process=process, program=program), request())
        )
        assert (Path(interpreter).parent, Path(folder)) == (tmp_path, tmp_path)
        assert {"OF_THE_JOB", "RHEOS_HOME"} <= set(names)
        assert "OF_THE_DASHBOARD" not in names
        gone = msgspec.structs.replace(program, interpreter="/no/such/python")
        with pytest.raises(ConfigurationError, match="cannot be started here: /no/such/python"):
            asks.ask("why", record(process=process, program=gone), request())
    finally:
        job.kill()
        job.wait()
