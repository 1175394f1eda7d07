"""Functions of two keyed streams, compiled while they run: both forms have the same results."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, ReplayMode, Right, replay
from tests.core.operators.drawn_functions import (
    Drawn,
    Given,
    ListDrawing,
    Rule,
    class_of,
    drawn_rows,
    drawn_rules,
)
from tests.core.operators.test_automatic import WAYS, Forms, forms, interpreted  # noqa: F401 - a fixture
from tests.core.operators.test_compiled import RESCALED, TOGETHER

pytest.importorskip("numba")

BOTH = """
class Function(rh.KeyedCoProcessFunction):
    side_outputs = {"side": Side}
    rules = rh.ListState(str)
    n = rh.ValueState(int, default=1)

    def process_element1(self, row: Drawn, ctx):
        self.n.value += row.b or 0
        for rule in self.rules:
            yield Given(row.k, self.n.value, row.x, ctx.is_late, rule, ctx.watermark, row.t)
        ctx.timers.register(ctx.timestamp + 4)

    def process_element2(self, row: Rule, ctx):
        if row.gone:
            self.rules.clear()
            ctx.output("side", Side(self.n.value, row.x))
        self.rules.append(row.s)
        self.n.value = NUMBER

    def on_timer(self, timestamp, ctx):
        yield Given(ctx.key, timestamp, 0.0, True, "timer", len(self.rules), None)
"""


def outcome_of_both(build: Any, way: ReplayMode, seed: int) -> Any:
    """Return the rows by output, floats to the last bit; or the error, and its line. `build` receives
    streams of drawn rows and of drawn rules."""
    script: list[Any] = []
    rules = drawn_rules(seed, 20)
    for number, row in enumerate(drawn_rows(seed, 60)):
        if number % 10 == 9:
            script.append(WatermarkMark(row["at"] - 4))
        if number % 3 == 0:
            script.append(Right(rules[number // 3]))
        script.append(row)
    example = OperatorExample(
        build, schema_of(Drawn), script, on="at", right=schema_of(Rule), right_on="at"
    )
    try:
        found = replay(example, way)
    except RheosError as error:
        return error.what.partition(":")[0], error.site and error.site.line
    shown = {name: [repr(list(row.values())) for row in of] for name, of in found.items()}
    return shown if way is TOGETHER else {name: sorted(of) for name, of in shown.items()}


def outcome(fn: Any, order: Any = "arrival", way: ReplayMode = TOGETHER, seed: int = 5) -> Any:
    def build(rows: rh.DataStream, rules: rh.DataStream) -> dict[str, rh.DataStream]:
        both = rows.key_by("k").connect(rules.key_by("k"))
        out = both.process(fn, returns=Given, order=order)
        return {"out": out, "side": out.side_output("side")}

    return outcome_of_both(build, way, seed)


@pytest.mark.parametrize("order", ["arrival", "event_time"])
@WAYS
def test_both_methods_have_the_same_results(order: str, way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    fn = class_of(BOTH.replace("NUMBER", "row.n"), "<both>")
    plain = interpreted(partial(outcome, fn(), order, way))
    assert forms.taken == 0
    assert len(plain["out"]) > 90
    assert outcome(fn(), order, way) == plain
    assert forms.taken > forms.returned == 0


@pytest.mark.parametrize("order", ["arrival", "event_time"])
def test_either_method_may_return_to_python(order: str, forms: Forms) -> None:  # noqa: F811
    fn = class_of(BOTH.replace("NUMBER", "(row.at << 60) % 1009 if row.at > 90 else 1"), "<large>")
    plain = interpreted(partial(outcome, fn(), order))
    assert outcome(fn(), order) == plain
    assert forms.returned == 1


class CoDrawing(ListDrawing):
    """Generator of the source of a function of two streams."""

    head = ListDrawing.head.replace("rh.KeyedProcessFunction", "rh.KeyedCoProcessFunction")

    def text(self) -> str:
        self.method("    def process_element1(self, row: Drawn, ctx):", rows=True)
        self.method("    def process_element2(self, rule: Rule, ctx):", rows=False)
        self.lines.append("        self.n.value += rule.n")
        self.method("    def on_timer(self, timestamp, ctx):", rows=False)
        return self.head + "\n".join(self.lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:  # noqa: F811
    fn = class_of(CoDrawing(Random(seed)).text(), f"<both {seed}>")
    for order, way in (("arrival", TOGETHER), ("event_time", RESCALED)):
        plain = interpreted(partial(outcome, fn(), order, way, seed))
        assert outcome(fn(), order, way, seed) == plain
    assert forms.taken


def test_explain_names_the_line_of_either_method() -> None:
    env = rh.Environment(1)
    at = rh.Watermark.monotonic(on="at")
    first = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn), watermark=at).key_by("k")
    second = env.from_source(rh.collection(drawn_rules(1, 3), schema=Rule), watermark=at).key_by("k")
    for number in ("row.n", "len({row.n})"):
        text = BOTH.replace("ctx.timers.register(ctx.timestamp + 4)", "pass").replace("NUMBER", number)
        fn = class_of(text, f"<{number}>")()
        first.connect(second).process(fn, returns=Given).collect(number)
    text = BOTH.replace("NUMBER", "row.n")
    first.connect(second).process(
        class_of(text, "<timed>")(), returns=Given, order="event_time"
    ).collect("t")
    shown = [part for part in env.explain().splitlines() if "takes Drawn and Rule" in part]
    compiled, refused, timed = shown
    assert timed.endswith("; compiled where 256 rows of one stream are successive")
    assert compiled.endswith("takes Drawn and Rule; compiled")
    assert "; interpreted: <len({row.n})>:18: " in refused
