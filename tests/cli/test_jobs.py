"""Commands that contact running jobs, in the driver's own process; the jobs are stand-ins."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from rheos.cli.jobs import awaited, size_text
from rheos.cli.main import app
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted
from rheos.core.errors import CheckpointError
from rheos.core.protocol.control import LAPS, Cost
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import Registry
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig, JobState, JobWait, OperatorStatus
from tests.cli.stand_ins import STORY, StandIn, outline
from tests.waiting import wait_for

Start = Callable[..., StandIn]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a job with this name, in a registry of the test alone."""
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    running: list[tuple[StandIn, ControlledJob]] = []

    def started(name: str = "job", directory: str | None = "/data") -> StandIn:
        job = StandIn()
        job.allowed.set()
        config = JobConfig(job=JobId(name), checkpoint_dir=directory)
        running.append((job, ControlledJob(job, outline(f"The {name}"), config, "continuous")))
        return job

    yield started
    for job, controlled in running:
        job.over.set()
        controlled.wait()


def rheos(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, stdout and stderr."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_list_may_be_empty(start: Start) -> None:
    assert rheos("jobs") == (0, "no jobs are running\n", "")
    assert rheos("jobs", "--json") == (0, "[]\n", "")


def test_jobs_are_listed_with_their_state(start: Start) -> None:
    start("visits", "/a/long/folder/of/checkpoints")
    start("flights", None)
    code, out, _ = rheos("jobs")
    heading, *rows = out.splitlines()
    assert (code, len(rows)) == (0, 2)
    assert heading.split()[:4] == ["id", "name", "state", "health"]
    (visits,) = [row for row in rows if row.startswith("visits")]
    for part in ("The visits", "running", "2", "3.5 s", "1,000,000", "4 (1 failed)", "120 ms"):
        assert part in visits
    assert visits.rstrip().endswith("/a/long/folder/of/checkpoints")


def test_a_loop_that_continues_after_its_input_is_named(start: Start) -> None:
    job = start()
    loop = OperatorStatus("iterate-1", "iterate", gauges={LAPS: 1204.0})
    job.shown = dataclasses.replace(job.shown, operators=(*job.shown.operators, loop))
    assert (
        "running, its input has ended, but 'iterate' still iterates (round 1,204)" in rheos("jobs")[1]
    )
    assert json.loads(rheos("jobs", "--json")[1])[0]["iterating"] == {"iterate": 1204}
    job.shown = dataclasses.replace(job.shown, state=JobState.STOPPED)
    assert job.shown.iterating == {}


def test_jobs_as_json(start: Start) -> None:
    start()
    code, out, _ = rheos("jobs", "--json")
    (job,) = json.loads(out)
    assert code == 0
    assert (job["id"], job["name"], job["state"]) == ("job", "The job", "running")
    assert (job["parallelism"], job["attempt"], job["restarts"]) == (2, 2, 1)
    assert (job["checkpoints_completed"], job["last_checkpoint_ms"]) == (4, 120)
    assert (job["checkpoint_dir"], job["pid"]) == ("/data", this_process().pid)
    assert (job["problem"], job["records_per_s"]) == (None, 1e6)


def test_a_job_of_another_host_is_listed_without_metrics(start: Start) -> None:
    start()
    (record,) = Registry().records()
    away = msgspec.structs.replace(record.process, host="away", boot="another")
    Registry().add(msgspec.structs.replace(record, key="other", process=away))
    code, out, _ = rheos("jobs")
    assert (code, sum("on host away" in line for line in out.splitlines())) == (0, 1)
    (state,) = [job["problem"] for job in json.loads(rheos("jobs", "--json")[1]) if job["problem"]]
    assert state == "on host away"


def test_a_savepoint_prints_its_folder_alone(start: Start, tmp_path: Path) -> None:
    job = start()
    assert rheos("savepoint", "job") == (0, "None/savepoint-1\n", "")
    assert rheos("savepoint", "The job", "s3://b/s") == (0, "s3://b/s/savepoint-1\n", "")
    # The driver may work in another folder than the caller.
    assert rheos("savepoint", "jo", "mine") == (0, f"{tmp_path}/mine/savepoint-1\n", "")
    assert [asked[1] for asked in job.asked] == [None, "s3://b/s", str(tmp_path / "mine")]


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["job", "--savepoint"], ("stop", None, False)),
        (["job", "--savepoint", "s3://b/s"], ("stop", "s3://b/s", False)),
        (["--savepoint", "--drain", "job"], ("stop", None, True)),
        (["job", "--savepoint", "/s", "--drain"], ("stop", "/s", True)),
    ],
    ids=str,
)
def test_a_job_is_stopped_with_a_savepoint(
    start: Start, arguments: list[str], asked: tuple[Any, ...]
) -> None:
    job = start()
    assert rheos("stop", *arguments) == (0, f"{asked[1]}/savepoint-1\n", "")
    assert job.asked == [asked]


def test_stop_requires_the_option_savepoint(start: Start) -> None:
    job = start()
    code, out, error = rheos("stop", "job", "/s")
    assert (code, out, job.asked) == (2, "", [])
    assert "rheos stop JOB --savepoint [DIR]" in error
    assert "rheos cancel JOB" in error


def test_a_subtask_is_profiled(start: Start) -> None:
    job = start()
    code, out, _ = rheos("profile", "job", "--subtask", "1", "--for", "2s")
    assert (code, job.asked) == (0, [("profile", 1, 2000)])
    assert out.splitlines() == ["step (engine.py:1) 1", "step (engine.py:1);count (job.py:7) 3"]
    shown = json.loads(rheos("profile", "job", "--json")[1])
    assert (shown["samples"], shown["every_ms"], shown["subtask"]) == (4, 10, 0)
    code, _, err = rheos("profile", "job", "--for", "long")
    assert (code, "'long' is not a duration" in err) == (2, True)


def test_a_job_is_cancelled(start: Start) -> None:
    job = start()
    assert rheos("cancel", "job") == (0, "", "cancelled job\n")
    assert job.asked == [("cancel",)]


@pytest.mark.parametrize("command", ["checkpoints", "events", "savepoint", "cancel"])
def test_an_unknown_job_is_a_usage_error(start: Start, command: str) -> None:
    start("visits")
    code, out, error = rheos(command, "bookings")
    assert (code, out) == (2, "")
    assert "no job 'bookings' is running" in error
    assert re.search(r"visits-[0-9a-f]{8} \('The visits', process", error)


def test_jobs_with_one_name_are_distinguished_by_directory(start: Start) -> None:
    here, there = start("flights", "/here"), start("flights", "/there")
    code, _, error = rheos("savepoint", "flights")
    assert code == 2
    assert "matches 2 running jobs" in error
    assert error.index("/here)") != error.index("/there)") > 0
    assert rheos("cancel", "flights@/there")[0] == 0
    assert (here.asked, there.asked) == ([], [("cancel",)])


def test_the_error_of_the_job_is_that_of_the_command(start: Start) -> None:
    job = start()
    job.savepoint_failure = CheckpointError("the disk is full", hint="make room")
    assert rheos("savepoint", "job") == (1, "", "the disk is full\n  what to do: make room\n")


@pytest.mark.parametrize("command", [["savepoint", "job"], ["cancel", "job"]], ids=str)
def test_a_timeout_is_a_duration(start: Start, command: list[str]) -> None:
    start()
    code, _, error = rheos(*command, "--timeout", "soon")
    assert code == 2
    assert "'soon' is not a duration" in error


def test_the_command_stops_waiting_at_its_timeout(start: Start) -> None:
    job = start()
    job.allowed.clear()
    code, out, error = rheos("savepoint", "job", "--timeout", "50ms")
    assert (code, out) == (1, "")
    assert "has not answered for 0.05 s" in error
    job.allowed.set()


# --- checkpoints --------------------------------------------------------------------------------


def completed(number: int, **changes: Any) -> CheckpointCompleted:
    handle = StateHandle(
        operator=OperatorId("o"),
        subtask=0,
        state="count",
        kind=StateKind.KEYED,
        mode=PartMode.FULL,
        size_bytes=3 << 20,
        rows=1,
        checksum=0,
        path="daily-visits/state/1/1/o/0-count-0.arrow",
    )
    entry = CheckpointCompleted(
        attempt=Attempt(1),
        owner="driver",
        reserved_to=CheckpointId(number),
        checkpoint=CheckpointId(number),
        final=False,
        parallelism=1,
        max_parallelism=128,
        operators={},
        handles=[handle, handle],
        committables=[],
        cost=Cost(sync_us=2_000, align_us=7_000, written_bytes=1536),
        duration_ms=250,
        completed_ms=1_700_000_000_000 + number * 1000,
    )
    return msgspec.structs.replace(entry, **changes)


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """Return a checkpoint directory with the log of the job "Daily visits", which is not running."""
    directory = tmp_path / "checkpoints"
    log = JobLog(open_store(str(directory)), JobId("daily-visits"))
    claim = AttemptStarted(
        attempt=Attempt(1),
        owner="driver",
        reserved_to=CheckpointId(0),
        from_checkpoint=None,
        parallelism=1,
        completed=[],
    )
    unaligned = Cost(unaligned=True, in_flight_bytes=2048)
    entries = [claim, completed(1), completed(2, savepoint="/s/2"), completed(3, cost=unaligned)]
    for number, entry in enumerate(entries, start=1):
        assert log.append(number, entry)
    log.drop(2)
    return str(directory)


def test_the_decisions_of_a_running_job(start: Start) -> None:
    start("job")
    code, out, _ = rheos("events", "job", "--trace")
    assert (code, out.splitlines()) == (0, list(STORY))


def test_the_event_log_of_a_running_and_an_ended_job(start: Start) -> None:
    job = start("job")
    code, out, _ = rheos("events", "job")
    heading, newest, oldest = (line.split() for line in out.splitlines())
    assert (code, heading) == (0, ["time", "level", "what", "happened"])
    assert newest[:2] == ["2023-11-14T22:13:30.000Z", "warning"]
    assert " ".join(newest[2:]) == "worker 1 lost (killed by signal 9), restarted in 4.0 s"
    assert " ".join(oldest[2:]) == "started"
    shown = json.loads(rheos("events", "job", "--json", "--lines", "1")[1])
    assert [(event["id"], event["subtask"], event["duration_ms"]) for event in shown] == [
        ("d-2", 1, 4000)
    ]
    job.over.set()
    wait_for(lambda: Registry().records() == [], 20)
    assert rheos("events", "job")[1] == out
    assert rheos("events", "nobody")[0] == 2


def test_checkpoints_of_a_running_job(start: Start) -> None:
    start()
    code, out, _ = rheos("checkpoints", "job")
    heading, row = out.splitlines()
    assert (code, heading.split()[:3]) == (0, ["checkpoint", "attempt", "completed"])
    assert row.split() == [
        *["3", "2", "2023-11-14T22:13:20Z", "120", "ms", "0", "ms", "overtook", "0", "B"],
        *["4.0", "KB", "/s/3"],
    ]


@pytest.mark.parametrize("name", ["daily-visits", "Daily visits"])
def test_checkpoints_of_a_job_that_does_not_run_are_read_from_its_log(kept: str, name: str) -> None:
    code, out, _ = rheos("checkpoints", name, "--checkpoint-dir", kept)
    _, second, third = out.splitlines()
    assert code == 0
    assert second.split() == [
        *["2", "1", "2023-11-14T22:13:22Z", "250", "ms", "2", "ms", "7", "ms", "1.5", "KB"],
        *["6.0", "MB", "/s/2"],
    ]
    assert third.split()[6:9] == ["ms", "overtook", "0"]
    assert "2.0 KB" in third


def test_checkpoints_as_json(kept: str) -> None:
    code, out, _ = rheos("checkpoints", "daily-visits", "--json", "--checkpoint-dir", kept)
    second, third = json.loads(out)
    assert code == 0
    assert (second["checkpoint"], second["savepoint"], second["state_bytes"]) == (2, "/s/2", 6 << 20)
    assert (second["sync_us"], second["written_bytes"]) == (2_000, 1536)
    assert (third["unaligned"], third["in_flight_bytes"]) == (True, 2048)


def test_a_directory_lists_its_jobs(kept: str) -> None:
    code, out, error = rheos("checkpoints", "bookings", "--checkpoint-dir", kept)
    assert (code, out) == (2, "")
    assert "no job 'bookings'" in error
    assert "its jobs are: daily-visits" in error


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    code, _, error = rheos("checkpoints", "job", "--checkpoint-dir", str(gone))
    assert (code, gone.exists()) == (2, False)
    assert f"the checkpoint directory '{gone}' does not exist" in error


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (3 << 30, "3.0 GB"), (5 << 40, "5.0 TB")],
)
def test_a_size_reads_in_one_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_command_that_waits_prints_what_the_job_waits_for(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    job = start()
    since_ms = time.time_ns() // 1_000_000 - 50 * 3_600_000
    printed: list[str] = []

    def is_printed(what: str) -> bool:
        printed.append(capsys.readouterr().err)
        return f"waiting for 2 d 2 h: {what}\n" in "".join(printed)

    def command() -> str:
        for what in ("the savepoint waits for the sink 'orders'", "its manifest is being written"):
            job.shown = dataclasses.replace(job.shown, waits=(JobWait(what, since_ms),))
            wait_for(lambda what=what: is_printed(what))  # type: ignore[misc]
        return "the folder"

    [record] = Registry().records()
    assert awaited(record, command, look_every_s=0.01, report_every_s=60.0) == "the folder"
    assert len("".join(printed).splitlines()) == 2
    shown = json.loads(rheos("jobs", "--json")[1])[0]["waits"]
    manifest = {"what": "its manifest is being written", "since_ms": since_ms, "kind": "request"}
    assert shown == [manifest]
