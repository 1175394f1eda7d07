"""docs/quickstart.md, step by step in one shell: each command prints the lines that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell, Step, has_checkpoint
from tests.equivalence.printed import OUTPUT, outputs_of
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
STEP = re.compile(
    r"^(?:<!-- file: (\S+) -->\n)?```(?:python|sh)\n(.*?)^```$"
    r'(?:\n\n```text title="Output"\n(.*?)^```$)?',
    re.MULTILINE | re.DOTALL,
)
WITH_OUTPUT = [(Step(found[1], found[2]), found[3]) for found in STEP.finditer(PAGE.read_text())]
WITHOUT_SPARK = "## 5. Live, on Spark"


def missing(wanted: str, printed: str) -> str | None:
    """Return the first line of `wanted` that `printed` does not have after the lines before it. A line
    may have more at its end, and "..." is any number of lines."""
    lines = iter(printed.splitlines())
    for line in wanted.splitlines():
        if line != "..." and not any(of.strip().startswith(line) for of in lines):
            return line
    return None


def do(shell: Shell, folder: Path, step: Step, output: str) -> None:
    if step.file is not None:
        (folder / step.file).write_text(step.code)
        return
    if not step.code.startswith("grep"):
        printed = shell.run(step.code)
        assert missing(output, printed) is None, printed
        if step.code.startswith("ls "):
            assert printed == output
        return
    # It looks at the log of a job that may still be starting.
    wait_for(lambda: shell.run(f"{step.code.strip()} || true\n") == output, WITHIN_S)


def test_the_steps_without_spark_print_their_output(shell: Shell, tmp_path: Path) -> None:
    done = PAGE.read_text().index(WITHOUT_SPARK)
    for step, output in WITH_OUTPUT:
        if PAGE.read_text().index(step.code) < done:
            do(shell, tmp_path, step, output or "")


@pytest.mark.spark
@pytest.mark.deploy
def test_the_steps_on_spark_print_their_output(shell: Shell, tmp_path: Path) -> None:
    done = PAGE.read_text().index(WITHOUT_SPARK)
    for step, output in WITH_OUTPUT:
        if step.code.startswith(("rheos", "pytest")) and PAGE.read_text().index(step.code) < done:
            continue  # The test without Spark runs it.
        if "rheos stop" in step.code or step.code == "rheos jobs\n":
            wait_for(lambda: any(map(has_checkpoint, Registry().records())), WITHIN_S)
        do(shell, tmp_path, step, output or "")


def test_no_output_is_overlooked() -> None:
    shown = [output for _, output in WITH_OUTPUT if output]
    assert shown == outputs_of(PAGE)
    assert len(shown) == PAGE.read_text().count("```text") - 1, "all but the installation"
    assert OUTPUT.search('```text title="Output"\n1\n```')


def test_a_missing_line_is_found() -> None:
    assert missing("a\n...\nc\n", "a 1\nb\nc\n") is None
    assert missing("b\na\n", "a\nb\n") == "a"
