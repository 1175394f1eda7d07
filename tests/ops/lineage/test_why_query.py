"""Explaining a row of a stopped job: its program runs again from a checkpoint, and the job is not
affected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.cli.main import app
from rheos.core.errors import ConfigurationError
from tests.ops.forks.stopped_job import FORBIDDEN, PROGRAM, digest, stopped, write_input


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a job until it has read its first file, then add a second file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    Path("job.py").write_text(PROGRAM)
    write_input("1", ("ada", 5, 1), ("bob", 1, 12), ("ada", 2, 13))
    stopped("job.py")
    write_input("2", ("ada", 4, 14), ("bob", 7, 15), ("ada", 1, 21), ("bob", 1, 35), bad="no order")
    Path("job.py").write_text(FORBIDDEN)


def asked(sink: str, row: dict[str, Any], **given: Any) -> rh.WhyResult:
    return rh.why("orders", sink, row, against="job.py", checkpoint_dir="kept", **given)


def inputs(row: rh.ExplainedRow) -> list[tuple[str, Any, int]]:
    assert {i.unit for i in row.inputs} == {"line"}
    return [(Path(i.split).name, i.place, i.row["amount"]) for i in row.inputs]


def test_why_leads_from_a_row_to_its_input(job: None) -> None:
    before = digest(Path())
    found = asked("windows", {"user": "ada", "amount": 1})
    assert digest(Path()) == before, "nothing is written into the job's folders"
    assert (found.checkpoint is not None, found.given, found.matches) == (True, 3, 1)
    (row,) = found.rows
    assert row.exact
    assert inputs(row) == [("2.jsonl", 3, 1)]
    assert [step.operator for step in row.steps][:2] == ["orders", "filter"]
    (firing,) = row.steps[-1].firings
    assert (firing.key, firing.window, firing.watermark_ms) == ({"user": "ada"}, (20, 30), 34)
    assert str(row.steps[1].site).endswith("job.py:29")
    assert found.reservations == []


def test_inputs_before_the_checkpoint_are_found_from_the_start(job: None) -> None:
    (row,) = asked("windows", {"user": "ada", "amount": 6}).rows
    assert not row.exact
    assert [step.operator for step in row.steps if step.before] == [row.steps[-1].operator]
    assert inputs(row) == [("2.jsonl", 1, 4)]
    found = asked("windows", {"user": "ada", "amount": 6}, from_start=True)
    assert found.checkpoint is None
    (row,) = found.rows
    assert row.exact
    assert inputs(row) == [("1.jsonl", 3, 2), ("2.jsonl", 1, 4)], "named alike from wherever"


def test_several_matches_are_listed_newest_first(job: None) -> None:
    found = asked("windows", {}, from_start=True, most=2)
    assert (found.matches, len(found.rows)) == (4, 2)
    ends = [row.row["window_end"] for row in found.rows]
    assert ends == sorted(ends, reverse=True)


def test_a_rejected_record_is_its_own_input(job: None) -> None:
    (row,) = asked("bad", {}).rows
    (input,) = row.inputs
    assert (Path(input.split).name, input.unit, input.place) == ("2.jsonl", "line", 5)


@pytest.mark.parametrize(
    ("sink", "row", "says"),
    [
        ("alerts", {}, r"the job 'orders' has no sink 'alerts'\n.*its sinks are bad, windows"),
        ("windows", {"name": 7}, r"have no column 'name'\n.*they have user, window_start"),
        ("windows", {"amount": "x"}, r"'x' is not a value of the column 'amount' of the sink"),
        ("windows", {"user": "eve"}, r"of the 3 rows .* none has user='eve'\n.*--from-start"),
    ],
)
def test_errors_for_unknown_names_list_the_known_ones(
    job: None, sink: str, row: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"(?s){says}"):
        asked(sink, row)


def test_times_are_passed_as_strings(job: None) -> None:
    (row,) = asked("windows", {"window_end": "1970-01-01T00:00:00.030Z"}).rows
    assert row.row["amount"] == 1


# --- the command ----------------------------------------------------------------------------------


def run(*given: str) -> Any:
    options = ["--against", "job.py", "--checkpoint-dir", "kept"]
    return CliRunner().invoke(app, ["why", "orders", "--sink", "windows", *options, *given])


def test_the_command_prints_the_steps_of_a_row(job: None) -> None:
    done = run("--row", '{"user": "ada", "amount": 6}')
    assert done.exit_code == 0, done.output
    for line in (
        "1 of the 3 rows at 'windows' match",
        "the window 1970-01-01T00:00:00.010+00:00 to 1970-01-01T00:00:00.020+00:00 of user='ada' fired",
        "state from the checkpoint contributed to it, whose input rows are not known",
        "2.jsonl line 1:  user='ada', amount=4, at=14",
    ):
        assert line in done.output


def test_the_command_prints_json(job: None) -> None:
    shown = json.loads(run("--row", '{"user": "ada"}', "--from-start", "--json").output)
    assert (shown["checkpoint"], shown["matches"]) == (None, 3)
    newest = shown["rows"][0]
    assert (newest["exact"], newest["inputs"][0]["row"]["amount"]) == (True, 1)
    assert newest["steps"][-1]["firings"][0]["window"] == [20, 30]


def test_the_command_refuses_an_invalid_row(job: None) -> None:
    done = run("--row", "user=7")
    assert (done.exit_code, "'user=7' is not a JSON object" in done.output) == (2, True)
