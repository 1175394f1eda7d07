"""Assignment of a checkpoint's state to subtasks, if an operator is narrower than the job."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.state_assignment import shares
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import IN_FLIGHT_OUTPUT, StateKind
from tests.core.checkpoint.timelines import completed, handle

OPERATOR = OperatorId("narrow")
ROWS = 5


def waiting_in_the_outputs_of(senders: int, width: int) -> CheckpointCompleted:
    """Return rows in the outputs, on their way to an operator of that parallelism."""
    state = f"{IN_FLIGHT_OUTPUT}0"
    handles = [
        handle(subtask=sender, operator=OPERATOR, state=state, kind=StateKind.LIST, rows=ROWS)
        for sender in range(senders)
    ]
    return msgspec.structs.replace(
        completed(1), parallelism=senders, handles=handles, widths={OPERATOR: width}
    )


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("parallelism", [1, 2, 4, 5])
def test_rows_in_flight_to_a_narrow_operator_are_assigned_to_its_subtasks(
    width: int, parallelism: int
) -> None:
    entry = waiting_in_the_outputs_of(4, width)
    taken: Counter[tuple[int, int]] = Counter()
    for subtask in range(parallelism):
        for share in shares(entry, subtask, parallelism, {OPERATOR: width}):
            assert subtask < width, "it is no subtask of the operator"
            rows = range(share.offset, ROWS, share.every)
            taken.update((share.handle.subtask, row) for row in rows)
    assert taken == Counter((sender, row) for sender in range(4) for row in range(ROWS))
