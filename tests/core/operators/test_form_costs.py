"""The compiled form of an unmarked function stays only if its batches cost less processor time."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import pyarrow as pa
import pytest

from rheos.core.operators import form_choice
from rheos.core.operators.compiled_loops import CompiledCode
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.form_choice import FormChoice
from rheos.core.operators.form_costs import OwnTime
from rheos.core.state.columnar.string_codes import StringCodes
from tests.core.operators.contexts import context

ROWS = 1000
LATER_BATCHES = 60


class CostlyFunction:
    """An operator whose forms take a virtual processor time for each row."""

    def __init__(self, interpreted_ns: int, compiled_ns: int, *, is_measured: bool = True) -> None:
        self.interpreted_ns, self.compiled_ns = interpreted_ns, compiled_ns
        self.now_ns = 0
        self.written = 0
        self.ctx: OperatorContext = context(pa.schema([]), pa.schema([]))
        self.ctx.processor_ns = (lambda: self.now_ns) if is_measured else None
        self._choice = FormChoice(self.ctx, self._write)

    def _write(self) -> CompiledCode:
        self.written += 1
        return CompiledCode(StringCodes(), MappingProxyType({}))

    def forms(self, batches: int, rows: int = ROWS, parts: int = 1) -> list[bool]:
        """Process batches, each by `parts` calls. Return whether compiled code processed them."""
        made: list[bool] = []
        for _ in range(batches):
            calls = self._calls(rows, parts)
            for compiled in calls if self.ctx.own_time is None else self._measured(calls):
                made.append(compiled)
                self.now_ns += 1_000_000_000  # An operator downstream.
        return made

    def _measured(self, calls: Iterator[bool]) -> Iterator[bool]:
        assert self.ctx.own_time is not None
        return self.ctx.own_time.measure(lambda: calls)

    def _calls(self, rows: int, parts: int) -> Iterator[bool]:
        for _ in range(parts):
            compiled = self._choice.code(rows) is not None
            self.now_ns += rows * (self.compiled_ns if compiled else self.interpreted_ns)
        yield compiled


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_choice, "ENOUGH_ROWS", 20 * ROWS)
    monkeypatch.setattr(form_choice, "LATER_ROWS", LATER_BATCHES * ROWS)


@pytest.mark.parametrize("parts", [1, 3])
def test_slower_compiled_code_is_left(parts: int, caplog: pytest.LogCaptureFixture) -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=3600)
    with caplog.at_level("INFO", "rheos.functions"):
        forms = function.forms(50, rows=ROWS // parts, parts=parts)
    assert 11 <= sum(forms) <= 13
    assert not any(forms[-10:])
    assert function.ctx.counters == {"compiled_slower": 1}
    assert caplog.messages == [
        "the operator: the compiled form was slower (3,600 ns against 1,400 ns a row)"
    ]


@pytest.mark.parametrize("compiled_ns", [100, 1400, 1500])
def test_compiled_code_stays_unless_it_is_clearly_slower(compiled_ns: int) -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=compiled_ns)
    forms = function.forms(300)
    assert all(forms[25:])
    assert not function.ctx.counters


def test_the_first_compiled_batches_are_not_counted() -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=1_000_000)
    while not any(function.forms(1)):
        pass
    function.forms(2)
    function.compiled_ns = 100
    assert all(function.forms(100))


def test_the_forms_are_compared_again_after_many_rows() -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=3600)
    forms = function.forms(40)
    assert not forms[-1]
    function.compiled_ns = 100
    forms = function.forms(2 * LATER_BATCHES)
    assert not any(forms[: LATER_BATCHES // 2])
    assert all(forms[LATER_BATCHES:])
    assert function.written == 2
    function.compiled_ns = 9000
    forms = function.forms(2 * LATER_BATCHES)
    assert not any(forms[-10:])
    assert function.ctx.counters == {"compiled_slower": 2}


def test_compiled_code_stays_if_rows_cost_more_in_both_forms() -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=1300)
    assert all(function.forms(40)[25:])
    function.interpreted_ns, function.compiled_ns = 2400, 2300
    forms = function.forms(3 * LATER_BATCHES)
    assert sum(forms) > 2 * LATER_BATCHES
    assert all(forms[-LATER_BATCHES:])
    assert not function.ctx.counters


def test_small_batches_are_not_compared() -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=3600)
    while not any(function.forms(1)):
        pass
    assert all(function.forms(100, rows=10))


def test_a_host_that_measures_nothing_keeps_compiled_code() -> None:
    function = CostlyFunction(interpreted_ns=1400, compiled_ns=3600, is_measured=False)
    assert all(function.forms(100)[25:])
    assert function.ctx.own_time is None


def test_own_time_excludes_operators_downstream() -> None:
    now_ns = 0

    def outs() -> Iterator[int]:
        nonlocal now_ns
        for each in range(3):
            now_ns += 5
            yield each
        now_ns += 1

    time = OwnTime(lambda: now_ns)
    for _ in time.measure(outs):
        now_ns += 1000
    assert time.spent_ns == 16
