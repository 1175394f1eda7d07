"""The sources of a fork are recorded at the same time, and all recordings end after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.ops.forks import input as fork_input
from rheos.ops.forks.input import CheckpointInput
from rheos.ops.forks.tape import Tape

_WITHIN_S = 20.0
TWO_SOURCES = """
import rheos as rh

env = rh.Environment(parallelism=1)
for name in ("orders", "prices"):
    numbers = rh.generator(lambda block: {"n": block.index()}, count=1)
    env.from_source(numbers, name=name, uid=name).sink_to(rh.print_sink(), name=name + "-out")
env.execute("two")
"""

Recording = Callable[[PlannedOperator, threading.Event], Tape]


@pytest.fixture
def plan(tmp_path: Path) -> PhysicalPlan:
    file = tmp_path / "job.py"
    file.write_text(TWO_SOURCES)
    return planned_program(file, [], Overrides())


def record_with(monkeypatch: pytest.MonkeyPatch, recording: Recording) -> None:
    def record(planned: PlannedOperator, *given: Any) -> Tape:
        return recording(planned, given[-1])

    monkeypatch.setattr(fork_input, "record", record)


def test_sources_are_recorded_at_the_same_time(
    plan: PhysicalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=_WITHIN_S)

    def recording(planned: PlannedOperator, stop: threading.Event) -> Tape:
        both.wait()
        return Tape(())

    record_with(monkeypatch, recording)
    assert set(CheckpointInput(None, plan, None).tapes) == {"orders", "prices"}


def test_other_recordings_end_after_an_error(
    plan: PhysicalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    def recording(planned: PlannedOperator, stop: threading.Event) -> Tape:
        if planned.id == "prices":
            raise ConfigurationError("the topic does not exist")
        ended.append(stop.wait(_WITHIN_S))
        return Tape(())

    record_with(monkeypatch, recording)
    with pytest.raises(ConfigurationError, match="the topic does not exist"):
        CheckpointInput(None, plan, None)
    assert ended == [True]
