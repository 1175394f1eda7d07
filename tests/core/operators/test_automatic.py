"""Functions that are compiled while they run: whenever the compiled form takes over, and whenever it
returns to Python, the job has the results of the interpreted function."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler.kernel import Typing, compiled_loop
from rheos.core.compiler.values import EmittedType
from rheos.core.errors import UserFunctionError
from rheos.core.graph.compilation import method_texts
from rheos.core.operators import form_choice
from rheos.core.operators.automatic_core import AutomaticCore
from rheos.core.operators.compiled_core import CompiledCore
from rheos.core.operators.compiled_loops import CompiledCode, code_of
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, ReplayMode, replay
from tests.core.operators.drawn_functions import Drawn, Given, class_of, drawn_class, drawn_rows
from tests.core.operators.test_compiled import ON_DISK, RESCALED, TOGETHER, Everything, outcome

pytest.importorskip("numba")

WAYS = pytest.mark.parametrize("way", [TOGETHER, RESCALED, ON_DISK], ids=lambda way: way.name)


@dataclass
class Forms:
    """The number of changes of the form."""

    taken: int = 0
    returned: int = 0
    again: bool = False
    """Whether compiled code takes over again."""


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Forms:
    """Count the changes of the form, the first of which follows the first rows."""
    found = Forms()
    monkeypatch.setattr(form_choice, "ENOUGH_ROWS", 1)
    monkeypatch.setattr(form_choice, "LARGE_BATCH", 1)
    take_over, give_back = AutomaticCore._take_over, AutomaticCore._return_to_python

    def taking(core: AutomaticCore, code: CompiledCode) -> None:
        take_over(core, code)
        found.taken += core._compiled is not None

    def returning(core: AutomaticCore) -> None:
        give_back(core)
        found.returned += 1
        core._choice._rows_left = 1 if found.again else None

    monkeypatch.setattr(AutomaticCore, "_take_over", taking)
    monkeypatch.setattr(AutomaticCore, "_return_to_python", returning)
    return found


def interpreted(find: Callable[[], Any]) -> Any:
    """Return what `find` returns if nothing is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_choice, "ENOUGH_ROWS", 1 << 40)
        return find()


@WAYS
def test_a_function_has_the_same_results_when_it_is_compiled(way: ReplayMode, forms: Forms) -> None:
    plain = interpreted(lambda: outcome(Everything(), 5, way))
    assert len(plain["out"]) > 60
    assert (forms.taken, forms.returned) == (0, 0)
    assert outcome(Everything(), 5, way) == plain
    assert forms.taken > forms.returned == 0


@WAYS
def test_compiled_code_may_be_left_at_any_call(
    way: ReplayMode, forms: Forms, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = interpreted(lambda: outcome(Everything(), 5, way))
    rng, emitted, forms.again = Random(3), CompiledCore._emitted, True

    def failing(*given: Any) -> Iterator[Any]:
        # The state of the call's keys has changed by now.
        if rng.random() < 0.2:
            raise UserFunctionError("this call fails")
        return emitted(*given)

    monkeypatch.setattr(CompiledCore, "_emitted", failing)
    assert outcome(Everything(), 5, way) == plain
    assert forms.returned > 1


def test_small_batches_are_interpreted_again(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = interpreted(lambda: outcome(Everything(), 5))
    monkeypatch.setattr(form_choice, "LARGE_BATCH", 7)
    monkeypatch.setattr(form_choice, "_SMALL_BATCHES", 1)
    # The last batch is the only one that is small.
    assert outcome(Everything(), 5) == plain
    assert (forms.taken, forms.returned) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_functions_have_the_same_results(
    seed: int, forms: Forms, monkeypatch: pytest.MonkeyPatch
) -> None:
    fn = drawn_class(seed)
    for way in (TOGETHER, RESCALED, ON_DISK):
        plain = interpreted(partial(outcome, fn(), seed, way))
        assert outcome(fn(), seed, way) == plain
        if isinstance(plain, tuple):
            return  # A job that fails does not remove its files.


def in_batches(rows: list[dict[str, Any]]) -> list[Any]:
    """Return a script in which a watermark ends the batch before every 20th row."""
    script: list[Any] = []
    for at, row in enumerate(rows):
        if at % 20 == 0:
            script.append(WatermarkMark(row["at"] - 1))
        script.append(row)
    return script


LARGE = """
class Function(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=1)

    def process_element(self, row: Drawn, ctx):
        self.n.value = self.n.value * (row.a + 7) % 1000000007
        large = (row.a + 2) * (row.a + 3) * (row.a + 4) * (row.a + 5)
        yield Given(row.k, large % 1009 + self.n.value, row.x, row.f, row.s, None, None)
"""


@pytest.mark.slow
def test_machine_code_is_kept_for_other_processes(tmp_path: Path) -> None:
    program = f"""
from rheos.core.compiler.kernel import compiled_loop
from tests.core.operators.test_automatic import code_of_limited
[loop] = code_of_limited().loops.values()
print(sum(compiled_loop(loop, {str(tmp_path)!r}).stats.cache_hits.values()))
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert found == ["0\n", "1\n"]
    for kept in tmp_path.rglob("*.nb*"):
        kept.write_bytes(b"damaged")
    [loop] = code_of_limited().loops.values()
    assert compiled_loop(loop, str(tmp_path)).signatures


@pytest.mark.slow
@WAYS
def test_integers_have_no_limit(way: ReplayMode, forms: Forms) -> None:
    cls = class_of(LARGE, "<large>")
    rows = [
        row | {"a": row["a"] % 100 if at < 40 else 1 << 40} for at, row in enumerate(drawn_rows(1, 60))
    ]
    example = OperatorExample(
        lambda stream: stream.key_by("k").process(cls(), returns=Given),
        schema_of(Drawn),
        in_batches(rows),
        on="at",
    )
    assert repr(replay(example, way)) == interpreted(lambda: repr(replay(example, way)))
    assert forms.taken
    assert forms.returned


LIMITS = {1: 5, 2: 7}
KNOWN = ["s"]
SURPLUS = 0


def surplus() -> int:
    return SURPLUS


def other_surplus() -> int:
    return SURPLUS + 1


class Limited(rh.KeyedProcessFunction):
    def __init__(self) -> None:
        self.least = 3

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Any:
        if row.a > LIMITS.get(row.k, self.least) + surplus() and row.s in KNOWN:
            yield Given(row.k, row.a, row.x, row.f, row.s, None, None)


def code_of_limited(function: Any = None) -> CompiledCode:
    outputs = {"": EmittedType(schema_of(Given), Given)}
    typing = Typing(schema_of(Drawn), ("k",), Drawn, True, outputs)
    return code_of(function or Limited(), method_texts(Limited), typing)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (lambda function: None, True),
        (lambda function: setattr(function, "other", 4), True),
        (lambda function: setattr(function, "least", 4), False),
        (lambda function: LIMITS.update({2: 8}), False),
        (lambda function: LIMITS.update({3: 8}), False),
        (lambda function: KNOWN.append("m"), False),
        (lambda function: globals().update(KNOWN=["s"]), False),
        (lambda function: globals().update(SURPLUS=1), False),
        (lambda function: globals().update(surplus=lambda: 0), False),
        (lambda function: setattr(surplus, "__code__", other_surplus.__code__), False),
    ],
)
def test_code_holds_until_an_outside_value_changes(
    change: Callable[[Any], None], holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "LIMITS", dict(LIMITS))
    monkeypatch.setitem(globals(), "KNOWN", list(KNOWN))
    monkeypatch.setitem(globals(), "SURPLUS", SURPLUS)
    monkeypatch.setitem(globals(), "surplus", surplus)
    monkeypatch.setattr(surplus, "__code__", surplus.__code__)
    function = Limited()
    code = code_of_limited(function)
    change(function)
    assert code.holds() == holds


def test_explain_names_the_form_of_each_function() -> None:
    def shown(fn: Any, **options: Any) -> str:
        env = rh.Environment(1, **options)
        rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
        rows.key_by("k").process(fn, returns=Given).collect("found")
        return next(line.strip() for line in env.explain().splitlines() if "takes Drawn" in line)

    assert shown(Limited()).endswith("takes Drawn; compiled")
    assert shown(Limited(), compiled=False).endswith("takes Drawn")
    text = LARGE.replace("row.s, None", "row.s.encode(), None")
    assert shown(class_of(text, "<encoded>")()).endswith(
        "takes Drawn; interpreted: <encoded>:8: row.s.encode() cannot be compiled"
    )
