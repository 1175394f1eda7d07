"""One command at a time hands a job over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.handover_turn import take_turn
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    return tmp_path


def record(key: str = "k1") -> JobRecord:
    return JobRecord(
        key=JobKey(key),
        job=JobId("orders"),
        name="orders",
        process=this_process(),
        runtime="continuous",
        checkpoint_dir=None,
        started_ms=0,
        endpoint="",
        token="",
    )


def test_a_second_command_is_refused_until_the_first_has_ended(home: Path) -> None:
    with take_turn(record(), "rheos upgrade orders job_v2.py") as first:
        with pytest.raises(ConfigurationError, match="handed over already") as refused:
            take_turn(record(), "rheos rollback orders")
        assert f"process {os.getpid()}" in refused.value.what
        assert "rheos upgrade orders job_v2.py" in refused.value.what
        take_turn(record("k2"), "rheos upgrade others job.py").release()
        first.release()
        with take_turn(record(), "rheos rollback orders"):
            first.release()
            with pytest.raises(ConfigurationError, match="rheos rollback orders"):
                take_turn(record(), "rheos upgrade orders job_v3.py")
    assert list((home / "handovers").iterdir()) == []


def test_the_turn_of_a_killed_command_is_free() -> None:
    code = (
        "import os, signal\n"
        "from tests.ops.control.test_handover_turn import record\n"
        "from rheos.ops.control.handover_turn import take_turn\n"
        "turn = take_turn(record(), 'rheos upgrade orders job_v2.py')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    take_turn(record(), "rheos upgrade orders job_v2.py").release()


def test_a_folder_that_cannot_be_written_prevents_no_upgrade(home: Path) -> None:
    (home / "handovers").write_text("")
    take_turn(record(), "rheos upgrade orders job_v2.py").release()
