"""Functions that read broadcast state, compiled while they run: both forms have the same results."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import rheos as rh
from rheos.testing.harness import ReplayMode
from tests.core.operators.drawn_functions import (
    Drawn,
    Given,
    Rule,
    class_of,
    drawn_broadcast,
    drawn_rows,
    drawn_rules,
)
from tests.core.operators.test_automatic import interpreted
from tests.core.operators.test_automatic_connected import outcome_of_both
from tests.core.operators.test_automatic_rows import Forms, forms  # noqa: F401 - a fixture
from tests.core.operators.test_compiled import RESCALED, TOGETHER

pytest.importorskip("numba")

ALL = """
class Function(rh.BroadcastProcessFunction):
    numbers = rh.BroadcastState(str, int)

    def process_broadcast_element(self, rule: Rule, ctx):
        self.numbers[rule.s] = {number}

    def process_element(self, row: Drawn, ctx):
        if row.s in self.numbers:
            yield Given(row.k, self.numbers[row.s], row.x, ctx.is_late, row.s, ctx.watermark, row.t)
"""


def outcome(fn: Any, order: Any = "arrival", way: ReplayMode = TOGETHER, seed: int = 5) -> Any:
    def build(rows: rh.DataStream, rules: rh.DataStream) -> dict[str, rh.DataStream]:
        out = rows.connect(rules.broadcast()).process(fn, returns=Given, order=order)
        return {"out": out} | {tag: out.side_output(tag) for tag in fn.side_outputs}

    return outcome_of_both(build, way, seed)


@pytest.mark.parametrize("order", ["arrival", "event_time"])
@pytest.mark.parametrize("way", [TOGETHER, RESCALED], ids=lambda way: way.name)
def test_rules_that_change_are_seen_by_both_forms(order: str, way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    fn = class_of(ALL.format(number="rule.n"), "<all rules>")
    plain = interpreted(partial(outcome, fn(), order, way))
    assert forms.taken == 0
    assert len(plain["out"]) > 20
    assert outcome(fn(), order, way) == plain
    assert forms.taken > forms.left == 0


def test_a_rule_above_64_bits_returns_to_python(forms: Forms) -> None:  # noqa: F811
    fn = class_of(ALL.format(number="1 << 70 if rule.at > 99 else 2"), "<large rules>")
    plain = interpreted(partial(outcome, fn()))
    assert outcome(fn()) == plain
    assert forms.left == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:  # noqa: F811
    fn = drawn_broadcast(seed)
    for order in ("arrival", "event_time"):
        plain = interpreted(partial(outcome, fn(), order, seed=seed))
        assert outcome(fn(), order, seed=seed) == plain
    assert forms.taken


@pytest.mark.parametrize(
    ("state", "line", "what"),
    [
        ("BroadcastState(str, Rule)", "self.state.get(row.s)", "'state' cannot be compiled"),
        ("BroadcastState(float, int)", "self.state.get(row.x)", "'state' cannot be compiled"),
        ("BroadcastState(str, int)", "[n for n in self.state]", "cannot be compiled"),
        ("BroadcastState(str, int)", "self.state.get(row.k)", "by int, but its keys are str"),
        ("BroadcastState(str, int)", "ctx.key", "the context has no key here"),
    ],
)
def test_explain_names_the_line_that_is_not_compiled(state: str, line: str, what: str) -> None:
    head, _, rest = ALL.format(number="rule.n").partition("        if row.s")
    text = f"{head}        found = {line}\n        if row.s{rest}"
    text = text.replace("    def process_b", f"    state = rh.{state}\n\n    def process_b", 1)
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
    rules = env.from_source(rh.collection(drawn_rules(1, 3), schema=Rule))
    fn = class_of(text, "<refused>")()
    rows.connect(rules.broadcast()).process(fn, returns=Given).collect("found")
    shown = next(part for part in env.explain().splitlines() if "takes Drawn and Rule" in part)
    assert "; interpreted: <refused>:11: " in shown
    assert what in shown
