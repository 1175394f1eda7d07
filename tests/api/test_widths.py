"""A parallelism, or the bounds of an automatic one, as users write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.api.widths import read_width
from rheos.cli.main import app
from rheos.core.errors import ConfigurationError, RheosError
from rheos.runtimes.job import ScalingBounds


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (4, (4, None)),
        ("auto", (1, ScalingBounds(1, None))),
        ("auto:2..8", (2, ScalingBounds(2, 8))),
        ("auto:3..", (3, ScalingBounds(3, None))),
        ("auto:3..3", (3, ScalingBounds(3, 3))),
    ],
    ids=str,
)
def test_valid_parallelisms_are_parsed(
    said: int | str, means: tuple[int, ScalingBounds | None]
) -> None:
    assert read_width(said, 128) == means


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("automatic", "parallelism='automatic' is not valid"),
        ("auto:2", "is not valid"),
        ("auto:2-8", "is not valid"),
        ("auto:-1..8", "is not valid"),
        ("auto:0..8", "at least 1"),
        ("auto:8..2", "has a minimum of 8 and a maximum of 2"),
        ("auto:2..9", "greater than max_parallelism 8"),
        (0, "at least 1"),
    ],
    ids=str,
)
def test_invalid_parallelisms_are_refused(said: Any, words: str) -> None:
    with pytest.raises(RheosError, match=words):
        read_width(said, 8)


def test_the_minimum_is_only_in_the_bounds() -> None:
    with pytest.raises(
        ConfigurationError, match=r"test_widths\.py.*already has its own minimum"
    ) as error:
        rh.Environment("auto:2..4", min_parallelism=2)
    assert 'parallelism="auto:2.."' in str(error.value)


def test_a_batch_job_refuses_an_automatic_parallelism() -> None:
    env = rh.Environment("auto:1..2", runtime="batch")
    env.from_source(rh.generator(lambda block: {"n": block.index()}, count=1)).collect("rows")
    with pytest.raises(ConfigurationError, match='runtime="continuous"'):
        env.execute("rows")


def test_the_command_refuses_an_invalid_parallelism(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import rheos as rh\nrh.Environment()\n")
    done = CliRunner().invoke(app, ["run", str(job), "--parallelism", "auto:8..2"])
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert (
        "Invalid value for '--parallelism': 'auto:8..2' has a minimum of 8 and a maximum of 2" in said
    )
