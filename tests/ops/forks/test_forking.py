"""A stopped job is forked: both programs continue from its checkpoint, and the job is untouched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.cli.main import app
from rheos.core.checkpoint.checkpoint_copies import newest_checkpoint
from rheos.core.errors import CheckpointError, ConfigurationError, RheosError
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.started_program import StartedProgram, started_program
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.simulated.store import MemoryStore
from tests.ops.forks.stopped_job import FORBIDDEN, PROGRAM, digest, stopped, write_input


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the program of a job that has read its first file; a second file exists now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    Path("job.py").write_text(PROGRAM)
    write_input("1", ("ada", 5, 1), ("bob", 1, 12), ("ada", 2, 13))
    stopped("job.py")
    write_input("2", ("ada", 4, 14), ("bob", 7, 15), ("ada", 1, 21), ("bob", 1, 35), bad="no order")
    Path("job.py").write_text(FORBIDDEN)
    return Path("job.py")


def changed(change: Callable[[str], str]) -> str:
    Path("job_v2.py").write_text(change(FORBIDDEN))
    return "job_v2.py"


def forked(program: str, **given: Any) -> rh.ForkResult:
    return rh.fork("orders", program, against="job.py", checkpoint_dir="kept", **given)


def amounts(tables: Mapping[str, pa.Table]) -> list[tuple[str, int]]:
    return sorted((row["user"], row["amount"]) for row in tables["windows"].to_pylist())


def shown(found: rh.ForkResult) -> list[tuple[object, ...]]:
    """Return difference, fields, user and amounts for each difference of the windows."""
    rows = found["windows"].to_dicts()
    amounts = [[row[side] and row[side]["amount"] for side in ("old", "new")] for row in rows]
    return [
        (row["difference"], row["fields"], row["key"]["user"], *both)
        for row, both in zip(rows, amounts, strict=True)
    ]


def test_both_programs_continue_from_the_checkpoint_and_are_compared(job: Path) -> None:
    v2 = changed(lambda text: text.replace('"least": 0', '"least": 2'))
    before = digest(Path())
    found = forked(v2)
    assert digest(Path()) == before, "a fork writes nothing into the job's folders"
    # Windows that were open in the checkpoint hold rows of the first file.
    assert amounts(found.old) == [("ada", 1), ("ada", 6), ("bob", 8)]
    assert found.rows_read == {"orders": 4}
    # ada's 1 at 21 is now too small; bob's 1 at 12 was counted before the change.
    assert shown(found) == [("only old", [], "ada", 1, None)]
    assert found.outputs["windows"].key == ("user", "window_start", "window_end")
    assert found.outputs["windows"].same == 2
    assert found.outputs["bad"].alike
    assert found.outputs["bad"].old_rows == 1


def test_the_same_program_has_no_differences(job: Path) -> None:
    found = forked("job.py")
    assert found.alike
    assert (found.notes, found.reservations, found.first) == ([], [], None)


def test_the_first_operator_with_other_rows_is_named(job: Path) -> None:
    found = forked("job.py", parameters={"least": "2"})
    assert found.first is not None
    assert str(found.first) == f"{Path('job.py').absolute()}:29: operator 'filter'"
    assert found.first.output.rows.get_column("old").to_list() == [
        {"user": "ada", "amount": 1, "at": 21},
        {"user": "bob", "amount": 1, "at": 35},
    ]
    # Only the changed program has the second filter, so the sink is the first operator of both.
    found = forked(
        changed(lambda text: text.replace("windows.sink", 'windows.filter("amount > 6").sink'))
    )
    assert found.first is not None
    assert (found.first.operator, found.first.output.only_old) == ("windows", 2)


def test_a_fork_may_differ_only_in_a_parameter(job: Path) -> None:
    found = forked("job.py", parameters={"least": "5"}, key=["user"])
    assert shown(found) == [
        ("changed", ["amount"], "ada", 6, 2),
        ("only old", [], "ada", 1, None),
    ]


def test_a_duration_ends_each_split_at_its_first_later_row(job: Path) -> None:
    # The event time of the checkpoint is 13.
    found = forked("job.py", for_="8ms")
    assert found.rows_read == {"orders": 2}
    found = forked("job.py", for_="20ms")
    assert found.rows_read == {"orders": 3}


def test_rows_without_event_time_are_read_for_the_duration(job: Path) -> None:
    other = "env.from_source(rh.files.source('in/*.jsonl', schema=Order, on_error='skip'))"
    v2 = changed(
        lambda text: text.replace("env.execute", f"{other}.sink_to(SINK, name='all')\nenv.execute")
    )
    assert forked(v2, for_="8ms").outputs["all"].new_rows > 0


def test_a_sink_of_only_one_program_is_named(job: Path) -> None:
    v2 = changed(lambda text: text.replace('name="windows", uid="out"', 'name="all", uid="other"'))
    found = forked(v2)
    assert found.notes == [
        "only the running program has the sink 'windows': all of its rows are differences",
        "only the changed program has the sink 'all': all of its rows are differences",
    ]
    assert (found.outputs["windows"].only_old, found.outputs["all"].only_new) == (3, 3)


def test_a_changed_source_is_read_separately(job: Path) -> None:
    v2 = changed(lambda text: text.replace("in/*.jsonl", "in/2*.jsonl"))
    found = forked(v2)
    (note,) = found.notes
    assert "job_v2.py:25: the source 'orders' differs from the running program's" in note
    assert found.rows_read == {"orders": 4}


def test_state_that_the_changed_program_dropped_is_an_error(job: Path) -> None:
    v2 = changed(lambda text: text.replace('uid("windows")', 'uid("others")'))
    with pytest.raises(
        CheckpointError, match="holds state of operators that the program no longer has"
    ):
        forked(v2)
    # It starts without that state: the window lacks the rows of the first file.
    found = forked(v2, allow_dropped=True)
    assert amounts(found.new) == [("ada", 1), ("ada", 4), ("bob", 7)]


def test_an_error_of_the_changed_program_is_raised(job: Path) -> None:
    v2 = changed(lambda text: text.replace(">= env", "> env").replace('parameters={"least": 0}', ""))
    with pytest.raises(RheosError, match=r"the job has no parameter 'least'"):
        forked(v2)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            'rh.socket.source("localhost:1")',
            "the server sends each line once, to whichever client is connected",
        ),
        ("rh.generator(lambda b: {'n': b.index()})", "cannot tell which input is available now"),
    ],
)
def test_a_source_that_cannot_be_read_twice_is_refused(job: Path, source: str, says: str) -> None:
    v2 = changed(
        lambda text: text.replace(
            "env.execute", f"env.from_source({source}).sink_to(SINK)\nenv.execute"
        )
    )
    with pytest.raises(ConfigurationError, match=r"job_v2\.py:33: .*") as error:
        forked(v2)
    assert says in str(error.value)


# --- the job, and its program ----------------------------------------------------------------------


@pytest.fixture
def running(job: Path) -> Iterator[JobRecord]:
    """Register a record as if a driver ran the job with a parameter."""
    text = Path("job.py").read_bytes()
    record = JobRecord(
        key=JobKey("forked"),
        job=JobId("orders"),
        name="orders",
        process=this_process(),
        runtime="continuous",
        checkpoint_dir=str(Path("kept").absolute()),
        started_ms=0,
        endpoint="",
        token="",
        program=StartedProgram(
            file=str(Path("job.py").absolute()),
            arguments=[],
            folder=str(Path().absolute()),
            parameters={"least": "2"},
            digest=hashlib.blake2b(text, digest_size=16).hexdigest(),
        ),
    )
    Registry().add(record)
    yield record
    Registry().remove(record)


def test_program_and_parameters_of_a_running_job_are_used(running: JobRecord) -> None:
    found = rh.fork("orders", "job.py")
    assert found.alike
    assert amounts(found.old) == [("ada", 6), ("bob", 8)]
    # The parameter overrides that of the job, for the changed program alone.
    found = rh.fork("orders", "job.py", parameters={"least": "5"})
    assert shown(found) == [("changed", ["amount"], "ada", 6, 2)]


def test_a_program_file_changed_since_the_start_is_refused(running: JobRecord) -> None:
    Path("job.py").write_text(FORBIDDEN + "# one more line\n")
    with pytest.raises(ConfigurationError, match=r"job\.py has changed since the job 'orders' was"):
        rh.fork("orders", "job.py")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"program": None}, "the program of the job 'orders' is unknown"),
        ({"checkpoint_dir": None}, "has no checkpoint directory that can be read from here"),
    ],
)
def test_missing_facts_of_a_running_job_are_an_error(
    running: JobRecord, changes: dict[str, Any], says: str
) -> None:
    Registry().add(msgspec.structs.replace(running, **changes))
    with pytest.raises(ConfigurationError, match=says):
        rh.fork("orders", "job.py")


def test_a_job_without_a_checkpoint_cannot_be_forked(job: Path) -> None:
    with pytest.raises(ConfigurationError, match="no job 'others' in"):
        rh.fork("others", "job.py", against="job.py", checkpoint_dir="kept")
    with pytest.raises(ConfigurationError, match="no checkpoint yet"):
        newest_checkpoint(MemoryStore(), JobId("orders"))
    with pytest.raises(ConfigurationError, match="the duration of a fork must be greater than 0"):
        forked("job.py", for_="0s")


def test_a_fork_may_start_from_a_savepoint(job: Path) -> None:
    taken = newest_checkpoint(open_store("kept"), JobId("orders"))
    store = open_store("taken")
    for path, data in taken.files.items():
        store.put(path, data)
    assert amounts(forked("job.py", from_savepoint="taken").old) == amounts(forked("job.py").old)
    with pytest.raises(ConfigurationError, match="does not exist"):
        forked("job.py", from_savepoint="elsewhere")


def test_a_checkpoint_dropped_while_read_is_replaced_by_the_next(job: Path) -> None:
    kept = open_store("kept")
    gone = iter([True, False])

    class Dropping(MemoryStore):
        def get(self, path: str) -> bytes:
            if "/state/" in path and next(gone, False):
                raise FileNotFoundError(path)
            return kept.get(path)

        def list(self, prefix: str) -> list[str]:
            return kept.list(prefix)

    assert newest_checkpoint(Dropping(), JobId("orders")).files


# --- the command ----------------------------------------------------------------------------------


def test_the_command_shows_counts_and_samples(running: JobRecord) -> None:
    done = CliRunner().invoke(app, ["fork", "orders", "job.py", "--param", "least=5", "--out", "all"])
    assert done.exit_code == 0, done.output
    assert "changed     ada   " in done.output
    assert "6 -> 2" in done.output
    assert (
        f"the programs begin to differ at {Path('job.py').absolute()}:29: operator 'filter'"
        in done.output
    )
    assert sorted(str(file) for file in Path("all").rglob("*.parquet")) == [
        f"all/{side}/{sink}.parquet"
        for side in ("difference", "new", "old")
        for sink in ("bad", "windows")
    ]
    again = CliRunner().invoke(app, ["fork", "orders", "job.py", "--out", "all"])
    assert (again.exit_code, "is not empty" in again.output) == (2, True)


def test_the_command_prints_json(running: JobRecord) -> None:
    done = CliRunner().invoke(app, ["fork", "orders", "job.py", "--param", "least=5", "--json"])
    shown = json.loads(done.output)
    assert (shown["alike"], shown["rows_read"], shown["notes"]) == (False, {"orders": 4}, [])
    (windows,) = (output for output in shown["outputs"] if output["sink"] == "windows")
    assert (windows["changed"], windows["fields"]) == (1, {"amount": 1})
    assert windows["samples"][0]["new"]["amount"] == 2
    assert (shown["first"]["operator"], shown["first"]["old"]["amount"]) == ("filter", 4)


def test_the_command_refuses_two_limits(job: Path) -> None:
    done = CliRunner().invoke(app, ["fork", "orders", "job.py", "--for", "5m", "--until", "now"])
    assert (done.exit_code, "leave out one" in done.output) == (2, True)


def test_the_program_of_this_process_is_known() -> None:
    program = started_program(rh.Environment(parameters={"a": 1}).parameters.over)
    assert program is not None
    assert program.as_started
    assert program.parameters == {}
