"""The log of a job: lines that its workers and its driver have logged, as JSON in a bounded file."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.core.protocol.control import Logged
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.log_lines import LogLine
from rheos.ops.control import job_logs
from rheos.ops.control.job_logs import LogFile, LogStream, following_lines, log_path, newest_lines
from rheos.runtimes.driver.driver_logs import JOBS, pass_on

NAMES = {OperatorId("map-1"): "parse"}
AT_MS = 1_700_000_000_123


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def log() -> Iterator[LogFile]:
    made = LogFile(JobId("shop-00000001"), JobId("shop"))
    yield made
    made.close()


def of_worker(*messages: str, operator: str | None = "map-1", dropped: int = 0) -> Logged:
    lines = [LogLine(AT_MS, logging.INFO, "shop.orders", m, operator) for m in messages]
    return Logged(attempt=Attempt(2), subtask=1, lines=lines, dropped=dropped)


PATH = JobId("shop-00000001")


@pytest.mark.usefixtures("log")
def test_a_worker_line_has_job_attempt_operator_and_subtask() -> None:
    pass_on(of_worker("a bad price"), JobId("shop"), NAMES)
    assert json.loads(log_path(PATH).read_text()) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "info",
        "logger": "shop.orders",
        "message": "a bad price",
        "job": "shop",
        "attempt": 2,
        "operator": "parse",
        "subtask": 1,
    }
    assert stat.S_IMODE(log_path(PATH).stat().st_mode) == 0o600
    assert stat.S_IMODE(log_path(PATH).parent.stat().st_mode) == 0o700


@pytest.mark.usefixtures("log")
def test_lines_without_operator_and_dropped_lines_are_recorded() -> None:
    pass_on(of_worker("x", operator="no such", dropped=7), JobId("shop"), NAMES)
    first, second = newest_lines(log_path(PATH), 10)
    assert (first.operator, second.level) == (None, "warning")
    assert second.message == "7 lines were dropped, because they were logged too fast"


@pytest.mark.usefixtures("log")
def test_lines_of_another_job_are_in_another_log() -> None:
    pass_on(of_worker("theirs"), JobId("another"), NAMES)
    JOBS.info("ours", extra={"job": "shop"})
    logging.getLogger("rheos.kafka").warning("a broker is away")
    assert [line.message for line in newest_lines(log_path(PATH), 10)] == ["ours", "a broker is away"]


@pytest.mark.usefixtures("log")
def test_no_credentials_are_written() -> None:
    pass_on(of_worker("at s3://key:secret@bucket/a"), JobId("shop"), NAMES)
    assert "secret" not in log_path(PATH).read_text()


@pytest.mark.usefixtures("log")
def test_the_file_is_bounded_and_older_lines_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MAX_FILE_BYTES", 2000)
    small = LogFile(JobId("small"), JobId("small"))
    for n in range(100):
        JOBS.info("%s %d", "x" * 100, n, extra={"job": "small"})
    small.close()
    files = sorted(log_path(PATH).parent.glob("small*"))
    assert [file.name for file in files] == ["small.jsonl", "small.jsonl.1", "small.jsonl.2"]
    assert all(file.stat().st_size <= 2000 for file in files)
    newest = [int(line.message.split()[1]) for line in newest_lines(log_path(JobId("small")), 12)]
    assert newest == list(range(88, 100))


def test_only_the_newest_logs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MAX_LOGS", 3)
    for n in range(5):
        log = LogFile(JobId(f"job-{n}"), JobId(f"job-{n}"))
        JOBS.info("it runs", extra={"job": f"job-{n}"})
        log.close()
        os.utime(log_path(JobId(f"job-{n}")), (n, n))
    assert sorted(path.stem for path in job_logs.log_folder().iterdir()) == ["job-2", "job-3", "job-4"]


@pytest.mark.usefixtures("log")
def test_a_truncated_line_is_skipped() -> None:
    JOBS.info("whole", extra={"job": "shop"})
    with log_path(PATH).open("a") as file:
        file.write('{"time": "20')
    assert [line.message for line in newest_lines(log_path(PATH), 10)] == ["whole"]
    assert newest_lines(log_path(JobId("nobody")), 10) == []


def test_following_a_log_continues_in_the_next_file(
    log: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_path(PATH)
    JOBS.info("before", extra={"job": "shop"})

    def written(_: float) -> None:
        """In place of the time that passes between two looks."""
        JOBS.info("in the old file", extra={"job": "shop"})
        path.rename(f"{path}.1")
        log.close()
        again = LogFile(PATH, JobId("shop"))
        JOBS.info("in the new one", extra={"job": "shop"})
        again.close()

    monkeypatch.setattr(job_logs.time, "sleep", written)
    following = following_lines(path)
    assert [next(following).message for _ in range(2)] == ["in the old file", "in the new one"]


def test_driver_warnings_still_reach_stderr_unless_printed_as_json(
    log: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(printed))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging.getLogger("rheos").warning("it restarts")
    pass_on(of_worker("of a worker"), JobId("shop"), NAMES)
    assert printed.getvalue() == "it restarts\n"
    stream = io.StringIO()
    json_lines = LogStream(stream)
    logging.getLogger("rheos").warning("again")
    json_lines.close()
    assert json.loads(stream.getvalue())["message"] == "again"
    assert printed.getvalue() == "it restarts\n"
    log.close()
    assert [line.message for line in newest_lines(log_path(PATH), 9)] == [
        "it restarts",
        "of a worker",
        "again",
    ]
