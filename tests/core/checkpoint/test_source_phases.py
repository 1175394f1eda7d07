"""Which phase of a source is open, as a result of the subtasks' reports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.events import SendToAll
from rheos.core.checkpoint.source_phases import SourcePhases
from rheos.core.protocol.control import OpenPhase, PhaseRead
from rheos.core.protocol.ids import Attempt, OperatorId

ATTEMPT = Attempt(3)
SOURCE = OperatorId("source-1")


def begun(parallelism: int) -> SourcePhases:
    phases = SourcePhases()
    phases.begin(ATTEMPT, parallelism)
    return phases


def told(phases: SourcePhases, subtask: int, phase: int, source: OperatorId = SOURCE) -> list[int]:
    """Return the phases that are opened by the report."""
    opened = []
    for action in phases.reported(
        PhaseRead(attempt=ATTEMPT, subtask=subtask, operator=source, phase=phase)
    ):
        assert isinstance(action, SendToAll)
        assert isinstance(action.message, OpenPhase)
        assert (action.message.attempt, action.message.operator) == (ATTEMPT, source)
        opened.append(action.message.phase)
    return opened


def test_a_phase_opens_when_the_last_subtask_has_reached_it() -> None:
    phases = begun(3)
    assert told(phases, 0, 1) == []
    assert told(phases, 1, 2) == []
    assert told(phases, 2, 1) == [1]
    assert told(phases, 0, 2) == []
    assert told(phases, 2, 2) == [2]


def test_repeated_reports_open_nothing() -> None:
    phases = begun(2)
    assert told(phases, 0, 1) == told(phases, 0, 1) == []
    assert told(phases, 1, 1) == [1]
    assert told(phases, 1, 1) == told(phases, 0, 1) == []


def test_sources_do_not_wait_for_one_another() -> None:
    phases = begun(2)
    told(phases, 0, 1)
    assert told(phases, 1, 1, OperatorId("source-2")) == []
    assert told(phases, 1, 1) == [1]


@given(words=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=20))
def test_phases_that_all_subtasks_have_reached_are_open(words: list[tuple[int, int]]) -> None:
    phases, reached, opened = begun(3), [0, 0, 0], [0]
    for subtask, phase in words:
        reached[subtask] = max(reached[subtask], phase)
        opened += told(phases, subtask, phase)
        assert opened[-1] == min(reached)
    assert opened == sorted(set(opened))
