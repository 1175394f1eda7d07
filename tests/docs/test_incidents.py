"""The page on incidents: its commands write the test that the page shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.core.errors import RheosError, Site, UserFunctionError
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import EndedJob, Registry
from rheos.ops.control.started_program import program_of
from tests.docs.walks import steps
from tests.ops.debugging.jobs import run_job

PAGE = Path(__file__).parents[2] / "docs" / "incidents.md"
FIRST = [("DE-17", 250, 1), ("FR-02", 900, 1), ("DE-17", 400, 2), ("DE-17", -300, 3)]
LATER = [
    ("DE-17", 100, 9),
    *(("DE-17", cents, 10 + n) for n, cents in enumerate([-480, -490, -450, 5])),
]
BLOCK = re.compile(r"```\n(rheos .*?)\n```\n+```\n(.*?)```", re.DOTALL)


def write(name: str, rows: list[tuple[str, int, int]]) -> None:
    Path("payments").mkdir(exist_ok=True)
    Path(f"payments/{name}.jsonl").write_text(
        "".join(
            json.dumps({"account": account, "cents": cents, "at": f"2026-11-27T02:{minute:02}:00"})
            + "\n"
            for account, cents, minute in rows
        )
    )


def run_program(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run the job of the page over the first rows."""
    patch.chdir(folder)
    patch.setenv("RHEOS_HOME", str(folder / "home"))
    [program] = [step.code for step in steps(PAGE) if step.file == "payments.py"]
    Path("payments.py").write_text(program)
    write("1", FIRST)
    run_job("payments.py", interval_ms=None)


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the job over the first rows, and let it fail by a later one."""
    run_program(tmp_path, monkeypatch)
    write("2", LATER)
    error = UserFunctionError(
        "ValueError: an account exceeds its limit",
        site=Site("payments.py", 28),
        operator="process(Account)",
        key="'DE-17'",
    )
    Registry().ended_jobs.add(
        EndedJob(
            key=JobKey("k"),
            job=JobId("orders"),
            name="payments",
            process=this_process(),
            runtime="continuous",
            checkpoint_dir=str(tmp_path / "kept"),
            started_ms=0,
            ended_ms=1,
            log=None,
            state="failed",
            failure=str(error),
            program=program_of(Path("payments.py").absolute(), [], {}),
        )
    )
    capsys.readouterr()


def run_test(file: str) -> None:
    names: dict[str, object] = {}
    code = compile(Path(file).read_text(), str(Path(file).absolute()), "exec")
    exec(code, names)
    [test] = [each for name, each in names.items() if name.startswith("test_") and callable(each)]
    test()


def without_times(text: str) -> str:
    return re.sub(r'(start|clock)=".*?"', r"\1=...", text)


def shown_test(argument: str) -> str:
    """Return the test on the page that has the argument."""
    [shown] = [
        step.code for step in steps(PAGE) if "check_incident(" in step.code and argument in step.code
    ]
    return shown


@pytest.mark.usefixtures("failed")
def test_a_failed_job_is_reproduced_as_the_page_shows() -> None:
    command, output = BLOCK.findall(PAGE.read_text())[0]
    done = CliRunner().invoke(app, command.split()[1:])
    assert done.exit_code == 0, done.output
    assert done.stdout == output
    text = Path("tests/test_limit.py").read_text()
    assert without_times(shown_test("operator=")) in without_times(text)
    with pytest.raises(RheosError, match=r"payments.py:\d+: operator 'process\(Account\)': ValueError"):
        run_test("tests/test_limit.py")
    # The test follows the program, and never replaces a file.
    Path("payments.py").write_text(Path("payments.py").read_text().replace("< -500", "< -5000"))
    run_test("tests/test_limit.py")
    again = CliRunner().invoke(app, command.split()[1:])
    assert again.exit_code == 2
    assert "tests/test_limit.py exists" in again.stderr


@pytest.mark.usefixtures("failed")
def test_a_wrong_row_becomes_a_test() -> None:
    where = ["--checkpoint-dir", "kept", "--against", "payments.py"]
    wrong = ["debug", "orders", "--key", "DE-17", "--as-test", "tests/test_balance.py", *where]
    done = CliRunner().invoke(app, [*wrong, "--result", '{"cents": 450}'])
    assert done.exit_code == 0, done.output
    assert 'unwanted=["DE-17,450"]' in Path("tests/test_balance.py").read_text()
    with pytest.raises(AssertionError, match=r"payments.py:\d+: operator .* emits DE-17,450"):
        run_test("tests/test_balance.py")
    refused = CliRunner().invoke(
        app, [*wrong[:4], "--as-test", "tests/other.py", *where, "--result", "450"]
    )
    assert refused.exit_code == 2
    assert "'450' is not a JSON object" in refused.stderr
    assert not Path("tests/other.py").exists()


def test_a_wrong_row_of_a_sink_becomes_a_test_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(tmp_path, monkeypatch)
    capsys.readouterr()
    command, output = BLOCK.findall(PAGE.read_text())[1]
    words = shlex.split(command)
    where = ["--checkpoint-dir", "kept", "--against", "payments.py", "--from-start"]
    done = CliRunner().invoke(app, [words[1], "orders", *words[3:], *where])
    assert done.exit_code == 0, done.output
    assert done.stdout == output
    text = Path("tests/test_balance.py").read_text()
    assert without_times(shown_test("sink=")) in without_times(text)
    with pytest.raises(AssertionError, match=r"sink 'out' receives DE-17,350 and does not receive"):
        run_test("tests/test_balance.py")
    mended = Path("payments.py").read_text().replace("+= payment.cents", "+= abs(payment.cents)")
    Path("payments.py").write_text(mended)
    run_test("tests/test_balance.py")


def test_a_missing_row_becomes_a_test_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(tmp_path, monkeypatch)
    capsys.readouterr()
    command, output = BLOCK.findall(PAGE.read_text())[2]
    words = shlex.split(command)
    where = ["--checkpoint-dir", "kept", "--against", "payments.py"]
    done = CliRunner().invoke(app, [words[1], "orders", *words[3:], *where])
    assert done.exit_code == 0, done.output
    assert done.stdout == output
    with pytest.raises(AssertionError, match=r"sink 'out' does not receive FR-02,450"):
        run_test("tests/test_missing.py")
    mended = Path("payments.py").read_text().replace("+= payment.cents", "+= payment.cents // 2")
    Path("payments.py").write_text(mended)
    run_test("tests/test_missing.py")
    refused = CliRunner().invoke(app, [*words[1:5], *where])
    assert refused.exit_code == 2
    assert "--expect" in refused.stderr


@pytest.mark.usefixtures("failed")
def test_jobs_that_have_not_failed_are_not_reproduced() -> None:
    done = CliRunner().invoke(app, ["reproduce", "invoices"])
    assert done.exit_code == 2
    assert "no job 'invoices' has failed on this machine" in done.stderr
    assert "failed jobs are orders" in done.stderr
