"""The state machine over batches: one look into a table of transitions for all rows of a round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.cli.benchmarks.state_machine import INITIAL, RULES, TOUR, Alert
from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.state import ValueState

_STATES = pa.array([INITIAL, *sorted({state for state, _ in RULES} - {INITIAL})])
_KINDS = pa.array(sorted(set(TOUR)))
_NUMBERS = {state: number * len(_KINDS) for number, state in enumerate(_STATES.to_pylist())}
"""Number of each state; the sum with the number of a kind is the place of a rule."""
_FOLLOWING = np.zeros(len(_STATES) * len(_KINDS), np.int64)
"""A wrong step starts over."""
_IS_WRONG = np.ones(len(_FOLLOWING), np.bool_)
for (_state, _kind), _next in RULES.items():
    _place = _NUMBERS[_state] + _KINDS.to_pylist().index(_kind)
    _FOLLOWING[_place] = _NUMBERS[_next]
    _IS_WRONG[_place] = False


class ValidateBatches(KeyedBatchFunction):
    """Vectorised form of `state_machine.Validate`, for all users of a batch at once."""

    form = "arrow"
    step = ValueState(int, default=0)

    def process_batch(
        self, keys: BatchKeys, batch: pa.RecordBatch, state: BatchState
    ) -> Iterator[Emit[Alert]]:
        kinds = pc.index_in(batch.column("kind"), _KINDS).to_numpy()
        places = np.empty(len(keys), np.int64)
        for rows in keys.rounds():
            users = keys[rows]
            places[rows] = at = state.step[users] + kinds[rows]
            state.step[users] = _FOLLOWING.take(at)
        wrong = np.flatnonzero(_IS_WRONG.take(places))
        alerts = batch.select(["user", "kind", "t"]).take(pa.array(wrong))
        names = _STATES.take(pa.array(places[wrong] // len(_KINDS)))
        yield Emit(alerts.append_column("state", names), wrong)
