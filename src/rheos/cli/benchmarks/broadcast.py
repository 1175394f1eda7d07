"""The state machine with its rules in broadcast state: the rules arrive as a separate stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheos.cli.benchmarks.state_machine import INITIAL, RULES, Alert, ShopEvent
from rheos.core.graph.connected_functions import KeyedBroadcastProcessFunction, ProcessContext
from rheos.core.graph.functions import KeyedContext
from rheos.core.graph.state import BroadcastState, ValueState


@dataclass(frozen=True)
class Rule:
    state: str
    kind: str
    following: str


def rules() -> list[Rule]:
    return [Rule(state, kind, following) for (state, kind), following in RULES.items()]


class ValidateByRules(KeyedBroadcastProcessFunction):
    """Follows each user through the shop by the rules that have come, and alerts on other steps."""

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
