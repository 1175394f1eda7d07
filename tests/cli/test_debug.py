"""`rheos debug`: its output, its prompts, and its errors for wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app
from tests.ops.debugging.jobs import PROGRAM, run_job, write_input


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> int:
    """Start a job that has read its first of two files. Return the number of its checkpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("job.py").write_text(PROGRAM)
    write_input("1", ("ada", 5, 1), ("bob", 1, 12), ("ada", 2, 13))
    (number,) = run_job(interval_ms=None)
    capsys.readouterr()
    write_input("2", ("ada", 4, 14), ("bob", 7, 15), ("ada", 9, 21), ("bob", 1, 35))
    return number


def debug(*arguments: str, key: str = "ada", operator: str = "sessions") -> tuple[int, str, str]:
    command = ["debug", "orders", "--key", key, "--operator", operator]
    where = ["--checkpoint-dir", "kept", "--against", "job.py"]
    done = CliRunner().invoke(app, [*command, *where, *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_without_a_terminal_each_step_is_printed(job: int) -> None:
    code, out, _ = debug()
    assert code == 0
    assert out.splitlines()[1:] == [
        "state in the checkpoint",
        "  total: 7",
        "  last: 13",
        "  amounts[0]: 5",
        "  amounts[1]: 2",
        "  by_size[small]: 2",
        "  timers: 1970-01-01T00:00:00.023Z (event time)",
        # A split that had not begun says nothing of how far event time had come.
        '   1  row {"user": "ada", "amount": 4, "at": 14} at 1970-01-01T00:00:00.014Z, '
        "no watermark yet",
        "        total: 7 -> 11",
        "        last: 13 -> 14",
        "        amounts[2]: + 4",
        "        by_size[small]: 2 -> 3",
        "        timers: - 1970-01-01T00:00:00.023Z (event time)",
        "        timers: + 1970-01-01T00:00:00.024Z (event time)",
        '   2  row {"user": "ada", "amount": 9, "at": 21} at 1970-01-01T00:00:00.021Z, watermark '
        "1970-01-01T00:00:00.012Z",
        "        total: 11 -> 20",
        "        last: 14 -> 21",
        "        amounts[3]: + 9",
        "        by_size[large]: + 1",
        "        timers: - 1970-01-01T00:00:00.024Z (event time)",
        "        timers: + 1970-01-01T00:00:00.031Z (event time)",
        '      big> {"amount": 9}',
        "   3  timer at 1970-01-01T00:00:00.031Z, watermark 1970-01-01T00:00:00.032Z",
        "        total: - 20",
        "        last: - 21",
        "        amounts[0]: - 5",
        "        amounts[1]: - 2",
        "        amounts[2]: - 4",
        "        amounts[3]: - 9",
        "        by_size[large]: - 1",
        "        by_size[small]: - 3",
        "        timers: - 1970-01-01T00:00:00.031Z (event time)",
        '      > {"user": "ada", "amount": 20}',
    ]
    assert f"from checkpoint {job} of orders to now: 2 of 4 rows of 'orders'" in out.splitlines()[0]


def test_windows_have_steps_by_row_and_watermark(job: int) -> None:
    code, out, _ = debug(operator="windows", key="bob")
    assert code == 0
    pane = "totals 1970-01-01T00:00:00.010Z to 1970-01-01T00:00:00.020Z"
    assert f"        {pane}: rows 1 -> 2, sum_amount 1 -> 8" in out
    assert "   3  watermark 1970-01-01T00:00:00.032Z\n" in out
    assert '"n": 2, "amount": 8}' in out


def test_as_json_it_is_one_object(job: int) -> None:
    code, out, _ = debug("--json")
    found = json.loads(out)
    assert code == 0
    assert [step["kind"] for step in found["steps"]] == ["row", "row", "timer"]
    assert found["steps"][0]["changes"][0] == {
        "state": "total",
        "before": {"value": 7},
        "after": {"value": 11},
    }
    assert found["steps"][-1]["out"] == [{"output": "", "row": {"user": "ada", "amount": 20}}]
    assert found["reservations"] == []


def scripted(*commands: str, operator: str = "sessions") -> list[str]:
    Path("commands").write_text("\n".join(commands) + "\n")
    code, out, err = debug("--script", "commands", operator=operator)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    return lines[lines.index('help or ? lists the commands; "step" is the first') + 1 :]


def test_steps_are_prompted_for_and_undone(job: int) -> None:
    lines = scripted("step", "state", "back", "step 2", "quit")
    asked = [line for line in lines if line.startswith("next: ")]
    assert [line.split(",")[0] for line in asked] == [
        "next: step 1",
        "next: step 2",
        "next: step 1",
        "next: step 3",
    ]
    assert asked[-1] == "next: step 3, on_timer for a timer"
    # Behind the first step, the key had this.
    assert lines[lines.index("user=ada") + 1] == "  total: 11"


def test_continue_runs_to_the_next_emitted_row(job: int) -> None:
    lines = scripted("continue", "quit")
    assert lines[-1] == "next: step 3, on_timer for a timer"
    lines = scripted("continue", "continue", "quit")
    assert lines[-1] == "no steps remain: use state, back or quit"


def test_pdb_stops_at_the_first_line_of_the_function(job: int) -> None:
    lines = scripted("step", "break", "p order.amount, self.total.value", "c", "quit")
    assert any(line.endswith("job.py(49)process_element()") for line in lines)
    assert "(Pdb) (9, 11)" in lines
    # And goes on where it was told to, with the same outcome.
    assert "        total: 11 -> 20" in lines


def test_windows_are_available_after_each_step(job: int) -> None:
    lines = scripted("break", "step", "step", "back", "step", "quit", operator="windows")
    assert lines[0] == "the program has no function that is called for each row"
    numbers = [line.split()[0] for line in lines if line[:4].strip().isdigit()]
    assert numbers == ["1", "2", "2"]


def test_breakpoints_in_the_program_stop_the_replay(job: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PROGRAM.replace("        size = ", "        breakpoint()\n        size = ")
    Path("job.py").write_text(text)
    stops: list[int] = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(1))
    code, _, _ = debug("--trace")
    assert (code, len(stops)) == (0, 2)


def test_a_failure_is_shown_and_can_be_debugged(job: int) -> None:
    Path("job.py").write_text(PROGRAM.replace("order.amount < 0", "order.amount == 9"))
    code, out, _ = debug("--trace")
    assert code == 1
    assert "      ! " + str(Path("job.py").absolute()) + ":51: operator 'process(Sessions)': " in out
    Path("commands").write_text("run\npm\np order.amount\nq\nquit\n")
    code, out, _ = debug("--script", "commands")
    assert code == 1
    assert "(Pdb) 9" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "first"], "--from 'first' is not a checkpoint"),
        (["--from", "77"], "has no checkpoint 77"),
        (["--until", "1"], "checkpoint 1 is not after checkpoint 1"),
    ],
)
def test_wrong_checkpoints_are_refused(job: int, arguments: list[str], says: str) -> None:
    code, _, err = debug(*arguments)
    assert code == 2
    assert says in err
    assert "what to do: " in err
