"""Other forms of the state machine: compiled, over batches, and with its rules in broadcast state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.cli.benchmarks.state_machine import INITIAL, RULES, TOUR, Alert, ShopEvent, Validate
from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.compilation import compiled
from rheos.core.graph.connected_functions import KeyedBroadcastProcessFunction, ProcessContext
from rheos.core.graph.functions import KeyedContext
from rheos.core.graph.state import BroadcastState, ValueState


@compiled
class CompiledValidate(Validate):
    """Variant of `Validate` in machine code."""


_STATES = pa.array([INITIAL, *sorted({state for state, _ in RULES} - {INITIAL})])
_KINDS = pa.array(sorted(set(TOUR)))
_NUMBERS = {state: number * len(_KINDS) for number, state in enumerate(_STATES.to_pylist())}
"""Number of each state. Added to the number of a kind, it is the index of a rule."""
_FOLLOWING = np.zeros(len(_STATES) * len(_KINDS), np.int64)
"""Next state by index of the rule; the initial state if no rule allows the step."""
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


@dataclass(frozen=True)
class Rule:
    state: str
    kind: str
    following: str


def rules() -> list[Rule]:
    return [Rule(state, kind, following) for (state, kind), following in RULES.items()]


class ValidateByRules(KeyedBroadcastProcessFunction):
    """Follows each user through the shop by the rules received; other steps cause alerts."""

    rules = BroadcastState(tuple[str, str], str)
    state = ValueState(str, default=INITIAL)

    def process_element(self, record: ShopEvent, ctx: KeyedContext) -> Iterator[Alert]:
        state = self.state.value
        following = self.rules.get((state, record.kind))
        if following is None:
            yield Alert(record.user, state, record.kind, record.t)
            self.state.clear()
        else:
            self.state.value = following

    def process_broadcast_element(self, rule: Rule, ctx: ProcessContext) -> None:
        self.rules[rule.state, rule.kind] = rule.following
