"""Files and folders that an argument of a REST request may name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, Entry
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.dashboard.arguments import SavepointFolder, SavepointPath, body_of, checked, meanings
from rheos.ops.dashboard.operations import Operation, operations
from rheos.ops.dashboard.replays import ForkRequest, WhyRequest
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job_operations import TakeSavepoint
from rheos.runtimes.operation_contract import Meaning

SAVEPOINT_BODY = body_of(TakeSavepoint)


def record(folder: Path, **given: Any) -> JobRecord:
    program = StartedProgram(
        file=str(folder / "job.py"), arguments=[], folder=str(folder), parameters={}, digest=""
    )
    facts = {"key": "k", "job": JobId("job"), "name": "job", "process": this_process()}
    facts |= {"runtime": "continuous", "checkpoint_dir": str(folder / "kept"), "started_ms": 0}
    return JobRecord(**{**facts, "endpoint": "e", "token": "t", "program": program, **given})


def completed(checkpoint: int, savepoint: str) -> CheckpointCompleted:
    return CheckpointCompleted(
        attempt=Attempt(1),
        owner="a driver",
        reserved_to=CheckpointId(9),
        checkpoint=CheckpointId(checkpoint),
        final=False,
        parallelism=1,
        max_parallelism=8,
        operators={},
        handles=[],
        committables=[],
        savepoint=savepoint,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a job whose log names savepoints inside and outside its checkpoint
    directory."""
    store = open_store(str(tmp_path / "kept"))
    log = JobLog(store, JobId("job"))
    claim = AttemptStarted(
        attempt=Attempt(1),
        owner="a driver",
        reserved_to=CheckpointId(9),
        from_checkpoint=None,
        parallelism=1,
        completed=[],
    )
    inside, outside = tmp_path / "kept/job/savepoints/s1", tmp_path / "outside"
    entries: list[Entry] = [claim, completed(1, str(inside)), completed(2, str(outside))]
    for number, entry in enumerate(entries, 1):
        assert log.append(number, entry)  # type: ignore[arg-type]
    log.drop(2)
    for made in (inside, outside, tmp_path / "kept/job/savepoints/planted", tmp_path / "more"):
        made.mkdir(parents=True)
    (tmp_path / "kept/link").symlink_to(outside)
    return tmp_path


# --- the table --------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", operations(), ids=lambda each: each.name)
def test_every_argument_of_an_operation_has_a_meaning(operation: Operation) -> None:
    """A field or parameter whose name is like a path has the rule of a path."""
    found = {} if operation.body is None else meanings(operation.body)
    found |= {name: parameter.meaning for name, parameter in operation.query.items()}
    like_paths = (
        "directory",
        "folder",
        "path",
        "file",
        "savepoint",
        "checkpoint_dir",
        "url",
        "against",
    )
    for name, meaning in found.items():
        if any(word in name for word in like_paths):
            assert meaning is not Meaning.TEXT, f"{operation.name}: {name}"


def test_all_path_arguments_of_rest_are_listed_here() -> None:
    """A new one is added here, together with its attacks below."""
    found = {
        (operation.name, name, meaning)
        for operation in operations()
        if operation.body is not None
        for name, meaning in meanings(operation.body).items()
        if meaning is not Meaning.TEXT
    }
    assert found == {
        ("savepoint", "directory", Meaning.SAVEPOINT_FOLDER),
        ("stop", "directory", Meaning.SAVEPOINT_FOLDER),
        ("why", "from_savepoint", Meaning.SAVEPOINT),
        ("fork", "from_savepoint", Meaning.SAVEPOINT),
        ("fork", "file", Meaning.PROGRAM),
    }


@pytest.mark.parametrize("kind", [str, str | None, list[str], dict[str, int], Any, bytes])
def test_a_string_without_declared_meaning_is_refused(kind: Any) -> None:
    body = msgspec.defstruct("Body", [("model", kind)])
    with pytest.raises(TypeError, match=r"Body\.model is a string without a declared meaning"):
        Operation("x", "/x", "", lambda asked: None, body=body)


# --- where savepoints may be --------------------------------------------------------------------------


def attacks(folder: Path) -> list[str]:
    return [
        str(folder / "outside"),
        str(folder / "kept" / ".." / "outside"),
        "../outside",
        str(folder / "kept/link"),
        "link/below",
        f"{folder}/kept-beside",
        f"file://{folder}/outside",
        f"local://{folder}/outside",
        "s3://bucket/a",
        "memory://a",
        "http://127.0.0.1/a",
        f"simplecache::file://{folder}/outside",
        "/proc/self/cwd",
        "~/a",
        "",
        "a\0b",
        "x" * 4000,
    ]


@pytest.mark.parametrize("number", range(17))
def test_a_savepoint_of_another_job_is_refused(folder: Path, number: int) -> None:
    attack = attacks(folder)[number]
    for body in (
        WhyRequest(sink="s", row={}, from_savepoint=attack),
        ForkRequest(from_savepoint=attack),
    ):
        with pytest.raises(ConfigurationError, match="'from_savepoint'"):
            checked(body, record(folder), [])


def test_a_savepoint_must_be_logged_and_in_its_directory(folder: Path) -> None:
    good = folder / "kept/job/savepoints/s1"
    for said in (str(good), "job/savepoints/s1", f"file://{good}", f"{good}/../s1/"):
        body = checked(ForkRequest(from_savepoint=said), record(folder), [])
        assert body.from_savepoint == os.path.realpath(good)
    planted = ForkRequest(from_savepoint="job/savepoints/planted")
    with pytest.raises(ConfigurationError, match="which is not among the savepoints in the log of"):
        checked(planted, record(folder), [])
    outside = ForkRequest(from_savepoint=str(folder / "outside"))
    assert checked(outside, record(folder), [str(folder / "outside")]).from_savepoint
    with pytest.raises(ConfigurationError, match="no checkpoint directory of its own"):
        checked(ForkRequest(from_savepoint=str(good)), record(folder, checkpoint_dir=None), [])


@pytest.mark.parametrize("number", range(13))
def test_a_savepoint_outside_the_directory_is_not_written(folder: Path, number: int) -> None:
    with pytest.raises(ConfigurationError, match=r"'directory' is .*, which is not below"):
        checked(SAVEPOINT_BODY(directory=attacks(folder)[number]), record(folder), [])


@pytest.mark.parametrize("said", ["job/log", "job/state/1", "job"])
def test_a_savepoint_is_not_written_among_the_files_of_a_job(folder: Path, said: str) -> None:
    if said == "job":
        assert checked(SAVEPOINT_BODY(directory=said), record(folder), []).directory
        return
    with pytest.raises(ConfigurationError, match="not below"):
        checked(SAVEPOINT_BODY(directory=said), record(folder), [])


@pytest.mark.parametrize(
    ("place", "said", "found"),
    [
        ("s3://b/kept", "s3://b/kept/a", "s3://b/kept/a"),
        ("s3://b/kept", "upgrades", "s3://b/kept/upgrades"),
        ("s3://b/kept/", "s3://b/kept", "s3://b/kept"),
        ("s3://b/kept", "s3://b/kept2", None),
        ("s3://b/kept", "s3://b/kept/../x", None),
        ("s3://b/kept", "s3://b/kept/%2e%2e/x", None),
        ("s3://b/kept", "s3://b/kept//x", None),
        ("s3://b/kept", "s3://k:s@b/kept/x", None),
        ("s3://b/kept", "/etc", "s3://b/kept/etc"),
        ("s3://***@b/kept", "s3://***@b/kept/x", None),
    ],
)
def test_savepoint_folders_below_a_url(folder: Path, place: str, said: str, found: str | None) -> None:
    job = record(folder, checkpoint_dir=place)
    if found is None:
        with pytest.raises(ConfigurationError, match="not below"):
            checked(SAVEPOINT_BODY(directory=said), job, [])
    else:
        assert checked(SAVEPOINT_BODY(directory=said), job, []).directory == found


# --- programs, and values -----------------------------------------------------------------------------


def test_a_program_that_others_can_write_is_not_run(folder: Path) -> None:
    (folder / "v2.py").touch()
    assert checked(ForkRequest(file="v2.py"), record(folder), []).file == str(folder / "v2.py")
    (folder / "v2.py").chmod(0o646)
    with pytest.raises(ConfigurationError, match="other users can write"):
        checked(ForkRequest(file="v2.py"), record(folder), [])
    (folder / "open").mkdir()
    (folder / "open/v3.py").touch()
    (folder / "open").chmod(0o777)
    with pytest.raises(ConfigurationError, match="other users can write"):
        checked(ForkRequest(file="open/v3.py"), record(folder), [])
    with pytest.raises(ConfigurationError, match="does not exist in the folder where the job was"):
        checked(ForkRequest(file="x" * 4000), record(folder), [])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"n": 1 << 64}, "exceeds 64 bits"),
        ({"n": -(1 << 63) - 1}, "exceeds 64 bits"),
        ({"s": "\ud800"}, "contains a character that is not valid in a string"),
        ({"s\0": 1}, "contains a character that is not valid in a string"),
        ({"d": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}, "nested deeper than 16 levels"),
    ],
)
def test_invalid_values_in_a_row_are_refused(folder: Path, row: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        checked(WhyRequest(sink="s", row=row), record(folder), [])


def test_a_string_with_two_meanings_is_refused() -> None:
    body = msgspec.defstruct("Body", [("place", SavepointFolder | list[SavepointPath])])
    with pytest.raises(TypeError, match="declares several kinds of strings"):
        meanings(body)
