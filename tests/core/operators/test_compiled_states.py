"""Compiled functions with lists and combined values in their state, in both forms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import rheos as rh
from rheos.core.errors import UserFunctionError
from rheos.core.graph.state import ListState, MapState
from rheos.core.operators import form_choice
from rheos.core.protocol.types import schema_of
from rheos.core.state.columnar.list_column import ListColumn
from rheos.core.state.columnar.map_column import MapColumn, places_of
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.memory_tables import MemoryListTable, MemoryMapTable
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


class Mapped(rh.KeyedProcessFunction):
    """Function with a sample of everything that can be done with a map."""

    side_outputs = {"side": Side}
    seen: Any = rh.MapState(str, int)
    marks: Any = rh.MapState(int, float, ttl=rh.TimeToLive("7ms", renewed_on="read_and_write"))

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Any:
        for turn in range(row.a % 5):
            self.marks[row.a * turn % 7] = row.k
        word = row.s if row.f else row.t
        if word is not None:
            self.seen[word] = self.seen.get(word, 0) + 1
        if row.a % 2 and row.s in self.seen:
            del self.seen[row.s]
            if row.f:
                self.seen[row.s] = 2
                self.seen[row.s] += len(self.seen)
        mark = self.marks.get(row.b) or 0.5
        yield Given(row.k, len(self.seen), mark, row.b in self.marks, row.s, row.b, row.t)
        ctx.timers.register(ctx.timestamp + 4)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Any:
        if timestamp % 5 == 0:
            self.seen.clear()
        self.seen["timer"] = timestamp
        yield Given(ctx.key, len(self.seen), 0.5, 1 in self.marks, "", None, None)


@pytest.mark.parametrize("way", [TOGETHER, RESCALED], ids=lambda way: way.name)
def test_maps_have_the_same_results(way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    plain = interpreted(partial(outcome, Mapped(), 5, way))
    assert len(plain["out"]) > 90
    assert outcome(Mapped(), 5, way) == plain
    assert forms.taken > forms.returned == 0


def test_a_marked_function_has_maps_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_choice, "ENOUGH_ROWS", 1 << 40)
    assert outcome(compiled_of(Mapped)(), 5, ON_DISK) == outcome(Mapped(), 5, ON_DISK)


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
    check_failing(class_of(FAILING.format(element=element), "<failing>"), way, forms)


def check_failing(cls: Any, way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    """Check that a function, one of whose compiled calls fails, has the results of Python."""

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
        ("rh.MapState(float, int)", "is a map of float to int, but a compiled function supports only"),
        ("rh.MapState(str, Given)", "is a map of str to Given, but a compiled function supports only"),
    ],
)
def test_explain_names_state_that_is_not_compiled(declared: str, what: str) -> None:
    text = FAILING.format(element="1").replace("rh.ListState(int)", declared, 1)
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
    rows.key_by("k").process(class_of(text, "<refused>")(), returns=Given).collect("found")
    shown = next(part for part in env.explain().splitlines() if "takes Drawn" in part)
    assert "; interpreted: <refused>:3: state 'kept' " in shown
    assert what in shown


MAPS = """
class Function(rh.KeyedProcessFunction):
    seen = rh.MapState(str, int, ttl="9ms")
    kept = rh.MapState(int, int)

    def process_element(self, row: Drawn, ctx):
        self.seen[row.s] = self.seen.get(row.s, 0) + 1
        self.kept[row.at % 7] = {element}
        if row.at % 4 == 0 and row.at % 3 in self.kept:
            del self.kept[row.at % 3]
        kept = self.kept.get(row.at % 5, 1) % 1009
        yield Given(row.k, kept, row.x, row.f, row.s, len(self.kept), None)
"""


@pytest.mark.parametrize(("state", "form"), [("memory", "compiled"), ("rocksdb", "interpreted: ")])
def test_explain_names_the_form_of_functions_with_maps(state: str, form: str) -> None:
    env = rh.Environment(1, state=state)
    rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
    cls = class_of(MAPS.format(element="1").replace(', ttl="9ms"', ""), "<maps>")
    rows.key_by("k").process(cls(), returns=Given).collect("found")
    shown = next(part for part in env.explain().splitlines() if "takes Drawn" in part)
    assert f"; {form}" in shown


@pytest.mark.slow
@pytest.mark.parametrize("element", [LARGE, ERROR])
@pytest.mark.parametrize("way", [TOGETHER, RESCALED], ids=lambda way: way.name)
def test_a_failing_call_leaves_no_trace_in_maps(element: str, way: ReplayMode, forms: Forms) -> None:  # noqa: F811
    check_failing(class_of(MAPS.format(element=element), "<failing>"), way, forms)


def test_a_column_stores_the_changes_of_maps() -> None:
    table = MemoryMapTable("seen", str, int)
    declared: MapState[str, int] = MapState(str, int)
    declared.name = "seen"
    table.enter("a").update(one=1, two=2, three=3)
    table.enter("b").update(one=4)
    column = MapColumn(declared, StringCodes(), table, None)
    column.grow(3)
    column.load(["b", "a", "c"], 0)
    assert column.lengths[:3].tolist() == [1, 3, 0]

    def number(slot: int, item: str) -> int:
        mask = len(column.index) - 1
        at = int(places_of(np.array([slot]), np.array([column.texts.code(item)]))[0]) & mask
        while (entry := int(column.index[at]) - 1) >= 0:
            if column.owners[entry] == slot and column.texts.text(column.items[entry]) == item:
                return entry
            at = (at + 1) & mask
        return -1

    assert [number(1, item) for item in ("one", "two", "three", "four")] == [1, 2, 3, -1]
    column.values[number(1, "two")] = 20
    column.present[number(1, "one")] = False
    column.versions[0] += 1
    column.items[4], column.owners[4], column.born[4] = column.texts.code("new"), 0, 1
    column.values[4], column.present[4], column.changed[[1, 2, 4]] = 5, True, True
    column.counts[:] = 5, 4
    column.journal[:4] = 2, 1, ~0, 4
    assert column.store(["b", "a", "c"]) == ["a", "a", "b", "b"]
    assert table.values == {"a": {"two": 20, "three": 3}, "b": {"new": 5}}
    assert table.changed == {"a": {"one", "two"}, "b": {"one", "new"}}
    assert not column.changed.any()
    column.keep(np.array([1], np.int32), np.array([0], np.int32))
    assert (column.counts[0], column.lengths[0], column.values[:2].tolist()) == (2, 2, [20, 3])
    assert [number(0, item) for item in ("one", "two", "three")] == [-1, 0, 1]


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
