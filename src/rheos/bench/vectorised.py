"""The state machine over batches: one look into a table of transitions for all rows of a round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from rheos.bench.state_machine import INITIAL, RULES, TOUR, Alert
from rheos.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.graph.state import ValueState

_STATES = pl.Series([INITIAL, *sorted({state for state, _ in RULES} - {INITIAL})])
_NUMBERS = {state: number for number, state in enumerate(_STATES)}
_KINDS = pl.Enum(sorted(set(TOUR)))
_FOLLOWING = np.zeros((len(_STATES), len(_KINDS.categories)), np.int64)
"""By state and kind. A wrong step starts over."""
_IS_WRONG = np.ones(_FOLLOWING.shape, np.bool_)
for (_state, _kind), _next in RULES.items():
    _step = _NUMBERS[_state], _KINDS.categories.to_list().index(_kind)
    _FOLLOWING[_step] = _NUMBERS[_next]
    _IS_WRONG[_step] = False


class ValidateBatches(KeyedBatchFunction):
    """What `state_machine.Validate` does, for all users of a batch at once."""

    step = ValueState(int, default=0)

    def process_batch(
        self, keys: BatchKeys, batch: pl.DataFrame, state: BatchState
    ) -> Iterator[Emit[Alert]]:
        kinds = batch["kind"].cast(_KINDS).to_physical().to_numpy()
        before = np.empty(len(keys), np.int64)
        for rows in keys.rounds():
            users = keys[rows]
            before[rows] = steps = state.step[users]
            state.step[users] = _FOLLOWING[steps, kinds[rows]]
        wrong = np.flatnonzero(_IS_WRONG[before, kinds])
        if len(wrong):
            # Column by column: a frame is gathered in Polars' pool of threads, which is waited for.
            alerts = {name: batch[name][wrong] for name in ("user", "kind", "t")}
            yield Emit({**alerts, "state": _STATES[before[wrong]]}, wrong)
