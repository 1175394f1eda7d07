"""The records of running jobs, and the job that a command refers to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId
from rheos.ops.control import processes
from rheos.ops.control.processes import Liveness, ProcessId, liveness, this_process
from rheos.ops.control.registry import (
    LOST,
    MAX_ENDED,
    JobRecord,
    Registry,
    find_job,
    newest_drivers,
    registry_folder,
)
from rheos.runtimes.job import JobConfig, job_key


def record(job: str = "job", **changes: object) -> JobRecord:
    directory = changes.get("checkpoint_dir")
    made = JobRecord(
        key=job_key(JobId(job), None if directory is None else str(directory)),
        job=JobId(job),
        name=job,
        process=this_process(),
        runtime="continuous",
        checkpoint_dir=None,
        started_ms=0,
        endpoint="tcp://127.0.0.1:1",
        token="secret",
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Yield another process, which waits until it is ended."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        yield process
        process.kill()


def process_id(process: subprocess.Popen[bytes]) -> ProcessId:
    started = psutil.Process(process.pid).create_time() - (psutil.boot_time() if psutil.LINUX else 0)
    return msgspec.structs.replace(this_process(), pid=process.pid, started_s=started)


# --- processes ----------------------------------------------------------------------------------


def test_a_process_is_alive_until_it_has_ended(sleeper: subprocess.Popen[bytes]) -> None:
    known = process_id(sleeper)
    assert liveness(known) is Liveness.ALIVE
    sleeper.kill()
    # The process stays in the process table until its parent has waited for it.
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert liveness(known) is Liveness.DEAD
    sleeper.wait()
    assert liveness(known) is Liveness.DEAD


def test_a_reused_process_id_is_another_process() -> None:
    here = this_process()
    earlier = msgspec.structs.replace(here, started_s=here.started_s - 5)
    assert (liveness(here), liveness(earlier)) == (Liveness.ALIVE, Liveness.DEAD)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # A host may be renamed while its processes run.
        ({"host": "another"}, Liveness.ALIVE),
        ({"boot": "before"}, Liveness.DEAD),
        ({"boot": "another", "machine": "another"}, Liveness.ELSEWHERE),
        # A pod that was moved keeps its name, and its image may have provided the machine's id.
        ({"boot": "another", "namespace": "pid:[1]"}, Liveness.ELSEWHERE),
        ({"boot": "another", "host": "another"}, Liveness.ELSEWHERE),
        ({"namespace": "pid:[1]"}, Liveness.ELSEWHERE),
    ],
)
def test_liveness_is_known_only_on_the_same_machine(
    changes: dict[str, str], expected: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_machine", lambda: "machine")
    assert liveness(msgspec.structs.replace(this_process(), **changes)) is expected


@pytest.mark.parametrize("unknown", ["_machine", "boot"])
def test_liveness_is_found_without_a_machine_or_boot_id(
    unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS, for example, or a container without the machine's id."""
    if unknown == "boot":
        monkeypatch.setattr(processes, "_text", lambda path: "")
        changes = {"host": "another"}
    else:
        monkeypatch.setattr(processes, "_machine", lambda: "")
        changes = {"boot": "another"}
    here = this_process()
    assert liveness(here) is Liveness.ALIVE
    assert liveness(msgspec.structs.replace(here, **changes)) is Liveness.ELSEWHERE


# --- records ------------------------------------------------------------------------------------


def test_records_are_added_and_removed(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "a" / "jobs")
    assert registry.records() == []
    later, sooner = record("later", started_ms=2), record("sooner", started_ms=1)
    registry.add(later)
    registry.add(sooner)
    assert registry.records() == [sooner, later]
    registry.remove(sooner)
    registry.remove(sooner)
    assert registry.records() == [later]


def test_other_users_cannot_read_a_token(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir(mode=0o755)
    Registry(folder).add(record())
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_records_of_dead_local_drivers_are_removed(
    tmp_path: Path,
) -> None:
    registry = Registry(tmp_path)
    here = this_process()
    away = record("away", process=msgspec.structs.replace(here, host="another", boot="another"))
    registry.add(record("dead", process=msgspec.structs.replace(here, started_s=1.0)))
    registry.add(away)
    (tmp_path / "newer.json").write_text('{"what": "another version"}')
    assert registry.records() == [away]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["away.json", "ended", "newer.json"]
    (lost,) = registry.ended_jobs.newest_first()
    assert (lost.key, lost.state, lost.failure) == ("dead", LOST, None)


def test_outcomes_of_the_newest_jobs_are_kept(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number in range(MAX_ENDED + 2):
        made = record(f"{number:03}")
        registry.add(made)
        registry.ended(made, "failed", f"failure {number}")
    assert registry.records() == []
    (tmp_path / "ended" / "newer.json").write_text('{"what": "another version"}')
    kept = registry.ended_jobs.newest_first()
    assert {ended.failure for ended in kept} == {f"failure {n}" for n in range(2, MAX_ENDED + 2)}
    assert "token" not in (tmp_path / "ended" / f"{kept[0].key}.json").read_text()


def test_the_folder_of_the_registry_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "own"))
    assert registry_folder() == tmp_path / "own" / "jobs"
    monkeypatch.delenv("RHEOS_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert registry_folder() == tmp_path / "state" / "rheos" / "jobs"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry_folder() == tmp_path / ".local" / "state" / "rheos" / "jobs"


# --- one identity over all drivers ----------------------------------------------------------------


def test_the_key_depends_on_job_and_directory_alone() -> None:
    job = JobId("shop")
    here = job_key(job, "/data/checkpoints")
    assert here == job_key(job, "/data/checkpoints/") == job_key(job, "file:///data/checkpoints")
    assert here.startswith("shop-")
    bucket = job_key(job, "s3://bucket/c")
    rotated = [job_key(job, f"s3://{user}@bucket/c") for user in ("key:old", "key:new", "key")]
    assert rotated == [bucket] * 3
    keys = {here, bucket, job_key(job, "/data/other"), job_key(JobId("shop-2"), "/data/checkpoints")}
    assert len(keys) == 4


def test_the_key_of_a_job_without_directory_is_its_id() -> None:
    assert JobConfig(JobId("shop-1a2b3c4d")).key == "shop-1a2b3c4d"


def test_each_driver_of_a_job_has_its_own_record(tmp_path: Path) -> None:
    """If a job was taken over from a frozen driver, commands go to the newer one."""
    registry = Registry(tmp_path)
    place = {"checkpoint_dir": "/data"}
    frozen = record("shop", driver="a", started_ms=1, **place)
    newer = record("shop", driver="b", started_ms=2, **place)
    waits = record("shop", driver="c", started_ms=3, stands_by=True, **place)
    for each in (frozen, newer, waits):
        registry.add(each)
    assert registry.records() == [frozen, newer, waits]
    assert newest_drivers(registry.records()) == [newer]
    assert newest_drivers([waits]) == [waits]
    assert find_job("shop", registry.records()) == newer
    assert find_job(newer.key, registry.records()) == newer
    registry.remove(newer)
    assert registry.records() == [frozen, waits]


def test_a_dead_driver_found_later_does_not_hide_the_outcome(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    dead = msgspec.structs.replace(this_process(), started_s=1.0)
    registry.add(record("shop", driver="a", started_ms=1, process=dead))
    successor = record("shop", driver="b", started_ms=2)
    registry.add(successor)
    registry.ended(successor, "finished", None)
    assert registry.records() == []
    assert [ended.state for ended in registry.ended_jobs.newest_first()] == ["finished"]


def test_a_record_of_version_0_1_0_is_read(tmp_path: Path) -> None:
    """Its key was unique to the driver, and was the name of its file."""
    old = msgspec.json.decode(msgspec.json.encode(record("1a2b3c4d5e6f")))
    del old["driver"]
    (tmp_path / "1a2b3c4d5e6f.json").write_bytes(msgspec.json.encode(old))
    registry = Registry(tmp_path)
    (found,) = registry.records()
    assert find_job("1a2b3c4d5e6f", [found]) is found
    registry.remove(found)
    assert list(tmp_path.iterdir()) == []


# --- the job that a command refers to ----------------------------------------------------------

VISITS = record("visits-1a2b", name="visits", process=msgspec.structs.replace(this_process(), pid=41))
HERE = record("flights", name="Flights", checkpoint_dir="/data/here")
THERE = record("flights", name="Flights", checkpoint_dir="s3://bucket/there")
LONGER = record("flights-late", name="flights, late", checkpoint_dir="/data/here")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("visits-1a2b", VISITS),
        ("visits", VISITS),
        ("41", VISITS),
        ("vis", VISITS),
        ("flights@/data/here", HERE),
        ("Flights@/data/../data/here/", HERE),
        ("flights@s3://bucket/there", THERE),
        ("flights-", LONGER),
    ],
)
def test_a_job_is_found_by_any_unique_part_of_its_identity(wanted: str, found: JobRecord) -> None:
    assert find_job(wanted, [VISITS, HERE, THERE, LONGER]) is found


def test_a_complete_id_takes_precedence_over_a_prefix() -> None:
    assert find_job("flights", [HERE, LONGER]) is HERE


def test_the_error_for_an_ambiguous_job_lists_the_matches(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'flights' matches 2 running jobs") as caught:
        find_job("flights", [VISITS, HERE, THERE, LONGER])
    listed = (caught.value.detail or "").splitlines()
    assert [line.rpartition(", ")[2] for line in listed] == ["/data/here)", "s3://bucket/there)"]


@pytest.mark.parametrize("wanted", ["bookings", "", "flights@/elsewhere", "visits@/data/here"])
def test_the_error_for_an_unknown_job_lists_running_jobs(wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no job '.*' is running") as caught:
        find_job(wanted, [VISITS, HERE])
    assert len((caught.value.detail or "").splitlines()) == 2
    with pytest.raises(ConfigurationError, match="is running: this user runs no job on this machine"):
        find_job(wanted, [])
