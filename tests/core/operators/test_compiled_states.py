"""Compiled functions with lists and combined values in their state, in both forms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import rheos as rh
from rheos.core.errors import UserFunctionError
from rheos.core.graph.state import ListState
from rheos.core.operators import form_choice
from rheos.core.protocol.types import schema_of
from rheos.core.state.columnar.list_column import ListColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.memory_tables import MemoryListTable
from rheos.testing.harness import OperatorExample, ReplayMode, replay
from tests.core.operators.drawn_functions import (
    Drawn,
    Given,
    ListDrawing,
    Side,
    class_of,
    drawn_class,
    drawn_rows,
)
from tests.core.operators.test_automatic import (
    WAYS,
    Forms,
    forms,  # noqa: F401 - a fixture
    in_batches,
    interpreted,
)
from tests.core.operators.test_compiled import ON_DISK, RESCALED, TOGETHER, compiled_of, outcome

pytest.importorskip("numba")


class Recent(rh.KeyedProcessFunction):
    """Function with a sample of everything that can be done with a list."""

    side_outputs = {"side": Side}
    recent: Any = rh.ListState(int)
    words: Any = rh.ListState(str)
    written = rh.ListState(float)
    unused = rh.MapState(str, int)
    total = rh.ValueState(int, default=0)

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Any:
        at = row.b
        self.recent.replace([at for at in self.recent if at > ctx.timestamp - 30])
        self.recent.append(ctx.timestamp)
        self.written.append(row.k)
        for turn, each in enumerate(self.recent):
            self.total.value += each * turn
        if row.f:
            self.words.append(row.s)
        if len(self.words) > 3:
            for word in self.words:
                self.words.append("again")  # The loop does not see it.
                yield Given(row.k, self.total.value, row.x, row.f, word, len(self.words), row.t)
            self.words.replace([row.s, "two"])
        yield Given(row.k, self.total.value, row.x, row.f, row.s, at, row.t)
        ctx.timers.register(ctx.timestamp + 4)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Any:
        if timestamp % 5 == 0:
            self.written.clear()
        self.words.append("timer")
        yield Given(ctx.key, len(self.words), 0.5, True, "", None, None)


@WAYS
def test_lists_have_the_same_results(way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    plain = interpreted(partial(outcome, Recent(), 5, way))
    assert len(plain["out"]) > 90
    assert outcome(Recent(), 5, way) == plain
    assert forms.taken > forms.returned == 0


@WAYS
def test_a_marked_function_has_lists(way: ReplayMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_choice, "ENOUGH_ROWS", 1 << 40)
    assert outcome(compiled_of(Recent)(), 5, way) == outcome(Recent(), 5, way)


def larger(a: int, b: int) -> int:
    if a > b:
        return a
    return b


class Combined(rh.KeyedProcessFunction):
    """Function with states that functions combine."""

    side_outputs = {"side": Side}
    total: Any = rh.ReducingState(int, lambda a, b: a + b)
    most: Any = rh.ReducingState(int, larger)
    least: Any = rh.ReducingState(float, min, ttl="9ms")

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Any:
        self.total.add(row.b if row.b is not None else 2)
        self.most.add(row.a % 97)
        if row.x == row.x:
            self.least.add(float(row.k) if row.f else row.x)
        if self.total.value > 30:
            self.total.clear()
        ctx.timers.register(ctx.timestamp + 4)
        least = self.least.value
        yield Given(row.k, self.most.value, 0.5 if least is None else least, row.f, row.s, None, None)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Any:
        self.total.add(1)
        yield Given(ctx.key, self.total.value, 0.5, True, "", self.most.value, None)


@WAYS
def test_reducing_states_have_the_same_results(way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    plain = interpreted(partial(outcome, Combined(), 5, way))
    assert len(plain["out"]) > 90
    assert outcome(Combined(), 5, way) == plain
    assert forms.taken > forms.returned == 0
    if way is TOGETHER:
        assert outcome(compiled_of(Combined)(), 5, way) == plain


FAILING = """
class Function(rh.KeyedProcessFunction):
    kept = rh.ListState(int)
    often = rh.ListState(int)

    def process_element(self, row: Drawn, ctx):
        self.often.append(row.at)
        if row.at % 4 == 0:
            self.often.clear()
        self.kept.append({element})
        for each in self.kept:
            yield Given(row.k, each % 1009 + len(self.often), row.x, row.f, row.s, None, None)
        self.kept.replace([each for each in self.kept if each % 5])
"""


LARGE = "row.at if row.at < 99 else (row.at << 60) % 1009"
ERROR = "row.at // (row.at - 99)"


@pytest.mark.parametrize(
    ("element", "way"),
    # A job that fails does not remove its files.
    [(LARGE, TOGETHER), (LARGE, RESCALED), (LARGE, ON_DISK), (ERROR, TOGETHER), (ERROR, RESCALED)],
)
def test_a_failing_call_leaves_no_trace(element: str, way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    cls = class_of(FAILING.format(element=element), "<failing>")

    def found() -> Any:
        given = OperatorExample(
            lambda stream: stream.key_by("k").process(cls(), returns=Given),
            schema_of(Drawn),
            in_batches(drawn_rows(1, 60)),
            on="at",
        )
        try:
            return repr(replay(given, way))
        except UserFunctionError as error:
            return error.what, error.site

    assert found() == interpreted(found)
    assert forms.taken
    assert forms.returned


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:  # noqa: F811
    fn = drawn_class(seed, ListDrawing)
    for way in (TOGETHER, RESCALED):
        plain = interpreted(partial(outcome, fn(), seed, way))
        assert outcome(fn(), seed, way) == plain
    assert forms.taken


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ("rh.ListState(Given)", "is a list of Given, but a compiled function supports only lists of"),
        (
            "rh.ListState(int, ttl=rh.TimeToLive('1h', time='processing_time'))",
            "is a list with a time to live",
        ),
        ("rh.MapState(str, int)", "is a MapState, but a compiled function supports only"),
    ],
)
def test_explain_names_lists_that_are_not_compiled(declared: str, what: str) -> None:
    text = FAILING.format(element="1").replace("rh.ListState(int)", declared, 1)
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
    rows.key_by("k").process(class_of(text, "<refused>")(), returns=Given).collect("found")
    shown = next(part for part in env.explain().splitlines() if "takes Drawn" in part)
    assert "; interpreted: <refused>:3: state 'kept' " in shown
    assert what in shown


def test_a_column_stores_what_was_appended() -> None:
    table = MemoryListTable("words", str)
    declared: ListState[str] = ListState(str)
    declared.name = "words"
    table.replace("a", ["one", "two"])
    table.freeze_all()
    column = ListColumn(declared, StringCodes(), table)
    column.grow(3)
    column.load(["b", "a", "c"], 0)
    assert column.lengths[:3].tolist() == [0, 2, 0]
    three = column.texts.code("three")
    column.values = np.append(column.values[:2], [three, three]).astype(np.int32)
    column.starts[:3], column.lengths[:3], column.used[0] = [2, 0, 0], [1, 2, 0], 4
    column.changed[0] = True
    assert column.store(["b", "a", "c"]) == ["b"]
    assert table.values == {"a": ["one", "two"], "b": ["three"]}
    assert (table.appended, table.rewritten) == ({"b"}, set())
    column.lengths[1], column.replaced[1], column.changed[1] = 0, True, True
    column._enough = 1
    assert column.store(["b", "a", "c"]) == ["a"]
    assert table.values == {"b": ["three"]}
    assert (column.used[0], column.starts[0], column.rooms[0]) == (1, 0, 1)
