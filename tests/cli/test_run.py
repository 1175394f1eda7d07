"""`rheos run` and `rheos explain` on small files. Jobs are stand-ins, so that no Spark is needed."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rheos.api import overrides
from rheos.api.overrides import Overrides
from rheos.api.partial_settings import from_command
from rheos.cli.explain import explain
from rheos.cli.run import run
from rheos.cli.terminal import FAILED, INTERRUPTED, MISUSED
from rheos.core.errors import JobFailedError
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobState, JobStatus

Write = Callable[[str], Path]


@dataclass
class StandIn:
    """Job that ends when it is waited for."""

    failure: Exception | None = None
    calls: list[str] = field(default_factory=list)
    endless: tuple[str, ...] = ()

    def status(self) -> JobStatus:
        state = JobState.FAILED if self.failure else JobState.FINISHED
        return JobStatus(JobId("j"), "stand-in", state, 1, 1.0, 0.0, None, 0, 0, None, 0, 0.0, 0.0)

    def wait(self, timeout_s: float | None = None) -> Any:
        self.calls.append("wait")
        if self.failure:
            raise self.failure

    def cancel(self) -> None:
        self.calls.append("cancel")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        file = tmp_path / "job.py"
        file.write_text(textwrap.dedent(text))
        return file

    return written


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Job that the file submits through `overrides.JOB`."""
    made = StandIn()
    monkeypatch.setattr(overrides, "JOB", made, raising=False)
    return made


SUBMIT = "from rheos.api import overrides; overrides.current().submitted(overrides.JOB)\n"


def test_a_file_runs_as_main_with_its_folder_and_its_arguments(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside_the_job.py").write_text("NAME = 'beside'")
    file = write("""
        import sys
        import beside_the_job
        import rheos as rh
        env = rh.Environment()
        if __name__ == "__main__":
            print(beside_the_job.NAME, sys.argv)
    """)
    assert run(file, ["--input", "x"], Overrides()) == 0
    assert capsys.readouterr().out == f"beside {[str(file), '--input', 'x']}\n"


def test_the_settings_hold_while_the_file_runs(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        import rheos as rh
        from rheos.api import overrides
        env = rh.Environment()
        print(overrides.current().override_of("parallelism"), overrides.current().listener is not None)
    """)
    assert run(file, [], Overrides((from_command({"parallelism": 3}),))) == 0
    assert capsys.readouterr().out == "3 True\n"
    assert overrides.current() == Overrides()


def test_a_missing_file_is_a_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "gone.py", [], Overrides()) == MISUSED
    assert "gone.py' does not exist" in capsys.readouterr().err
    assert run(tmp_path, [], Overrides()) == MISUSED
    assert "is a folder" in capsys.readouterr().err


def test_an_error_of_rheos_is_printed_without_traceback(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        from rheos.core.errors import SchemaError, Site
        place = Site("job.py", 3)
        raise SchemaError("there is no column 'k'", site=place, operator="m", hint="name one")
    """)
    assert run(file, [], Overrides()) == FAILED
    assert capsys.readouterr().err == (
        "job.py:3: operator 'm': there is no column 'k'\n  what to do: name one\n"
    )


def test_a_misconfigured_environment_is_a_usage_error(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        from rheos.core.errors import ConfigurationError
        raise ConfigurationError("there is no Java")
    """)
    assert run(file, [], Overrides()) == MISUSED
    assert capsys.readouterr().err == "there is no Java\n"


def test_other_errors_have_a_traceback_of_the_users_lines(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        def build():
            try:
                int("many")
            except ValueError as error:
                raise KeyError("parallelism") from error
        build()
    """)
    assert run(file, [], Overrides()) == FAILED
    shown = capsys.readouterr().err
    assert [line for line in shown.splitlines() if line.lstrip(" |").startswith("File")] == [
        f'  |   File "{file}", line 4, in build',
        f'  |   File "{file}", line 7, in <module>',
        f'  |   File "{file}", line 6, in build',
    ]
    assert shown.startswith(f"{file}:6: KeyError: 'parallelism'\n")


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("rh.Environment().nothing + missing", "rh.Environment has no nothing", "from_source"),
        ("strem = rh.Environment().from_sources", "rh.Environment has no from_sources", "from_source"),
        ("print(missing)", "NameError: name 'missing' is not defined", ""),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'", ""),
        ("from math import sine", "ImportError: cannot import name 'sine' from 'math'", ""),
        ("{}['shop']", "KeyError: 'shop'", ""),
        ("1 + 'a'", "TypeError: unsupported operand", ""),
        ("'a'.shop", "AttributeError: 'str' object has no attribute 'shop'", ""),
        ("import json; json.loads('{')", "json.decoder.JSONDecodeError: Expecting", ""),
        ("import tokens_of_nothing_py", "SyntaxError: invalid syntax", ""),
        ("(rh.col('a') > 1) and rh.col('b')", "TypeError: the truth value of an Expr", "& (and)"),
        ("rh.col('a') if rh.col('b') else 1", "TypeError: the truth value of an Expr", "pl.when"),
        ("0 < rh.col('a') < 5", "TypeError: the truth value of an Expr", ".is_between(1, 5)"),
        ("rh.col('a') in [1, rh.col('b')]", "TypeError: the truth value of an Expr", ".is_in("),
        ("not rh.col('a')", "TypeError: the truth value of an Expr", "~ (not)"),
        ("rh.col('a').startswith('x')", "AttributeError: 'Expr' object", "starts_with"),
    ],
)
def test_an_error_while_the_program_is_built_begins_with_its_line(
    write: Write, line: str, what: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(f"import rheos as rh\n\ndef build():\n    {line}\n\nbuild()\n")
    (file.parent / "tokens_of_nothing_py.py").write_text("x = 1\ndef f(:\n")
    assert run(file, [], Overrides()) == FAILED
    shown = capsys.readouterr().err
    there = f"{file.parent}/tokens_of_nothing_py.py:2" if "tokens" in line else f"{file}:4"
    assert shown.startswith(f"{there}: {what}")
    assert hint in shown
    assert bool(hint) == ("what to do: " in shown)
    frames = [each for each in shown.splitlines() if each.lstrip(" |").startswith("File")]
    assert all(str(file.parent) in frame for frame in frames)
    assert "Traceback" not in shown


def test_a_file_that_python_cannot_read_is_shown(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("def build(:\n")
    assert run(file, [], Overrides()) == FAILED
    shown = capsys.readouterr().err
    assert shown.startswith(f"{file}:1: invalid syntax")
    assert "runpy" not in shown


@pytest.mark.parametrize(("left_with", "code"), [("", 0), ("7", 7), ("'no input'", 1)])
def test_the_file_may_exit_with_a_code(
    write: Write, left_with: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(f"import sys; sys.exit({left_with})"), [], Overrides()) == code
    assert capsys.readouterr().err == ("no input\n" if code == 1 else "")


def test_the_command_waits_for_jobs_the_file_does_not_await(
    write: Write, job: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(SUBMIT), [], Overrides()) == 0
    assert job.calls == ["wait"]
    assert "stand-in finished" in capsys.readouterr().err


def test_a_job_that_fails_fails_the_command(
    write: Write, job: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    job.failure = JobFailedError("a subtask was lost")
    assert run(write(SUBMIT), [], Overrides()) == FAILED
    shown = capsys.readouterr().err
    assert "stand-in failed" in shown
    assert shown.endswith("a subtask was lost\n")


def test_ctrl_c_cancels_only_jobs_of_the_program(
    write: Write, job: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    # PySpark's handler stands where ours must win.
    file = write(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        + SUBMIT
        + "signal.raise_signal(signal.SIGINT)\n"
    )
    assert run(file, [], Overrides()) == INTERRUPTED
    assert job.calls == ["cancel"]
    assert capsys.readouterr().err.endswith("cancelled\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_explain_shows_the_captured_program(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("""
        from rheos.api import overrides
        class Environment:
            def explain(self, format, name): return f"{name} explained as {format}"
        assert overrides.current().capture
        raise overrides.ProgramCapture(Environment(), "job")
    """)
    assert explain(file, [], "mermaid", Overrides()) == 0
    assert capsys.readouterr().out == "job explained as mermaid\n"


def test_explain_reports_errors_at_the_line_of_execute(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        """
        import rheos as rh

        env = rh.Environment(runtime="continuous")
        env.from_source(rh.collection([{"a": 1}])).print()
        env.execute("job")
        """
    )
    line = 1 + file.read_text().splitlines().index('env.execute("job")')
    assert explain(file, [], "spark", Overrides()) == 1
    assert f'{file}:{line}: format="spark" shows a Spark plan' in capsys.readouterr().err.replace(
        "\n", ""
    )


def test_explain_needs_a_program(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(write("x = 1"), [], "text", Overrides()) == FAILED
    assert "without a call of execute" in capsys.readouterr().err


def test_a_program_without_execute_is_reported(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        import rheos as rh
        env = rh.Environment()
        env.from_source(rh.collection([{"n": 1}])).print("rows")
    """)
    assert run(file, [], Overrides()) == FAILED
    said = capsys.readouterr().err
    assert said.startswith(f"{file}:4: operator 'rows': the program ended without a call of execute")
    assert run(write("import rheos as rh; rh.Environment()"), [], Overrides()) == 0


def test_an_endless_job_in_virtual_time_says_how_to_end_it(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("""
        import pyarrow as pa
        import rheos as rh
        env = rh.Environment(1, runtime="simulated")
        numbers = rh.generator(lambda block: {"n": block.number()}, schema=pa.schema({"n": pa.int64()}))
        env.from_source(numbers, name="numbers").print()
        env.execute_async("endless").cancel()
    """)
    run(file, [], Overrides())
    said = capsys.readouterr().err
    assert "source 'numbers' never ends" in said
    assert "--for 1m" in said
