"""Both forms of a program's functions are compared: here compiled code is broken on purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler import operator_writer
from rheos.core.errors import ConfigurationError
from rheos.ops.compiled_forms import program_check
from rheos.ops.compiled_forms.form_comparison import FormDifference
from rheos.ops.compiled_forms.program_check import CheckedFunctions, CompiledCheck, check_program

pytest.importorskip("numba")


@dataclass
class Order:
    user: str
    flags: int
    at: int


@dataclass
class Total:
    user: str
    total: int


class Toggled(rh.KeyedProcessFunction):
    """Emits the state at a timer, long after the record that changed it."""

    total = rh.ValueState(int, default=0)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Total]:
        self.total.value = self.total.value ^ order.flags
        ctx.timers.register(ctx.timestamp + 1000)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Total]:
        yield Total(ctx.key, self.total.value)


class Kept(rh.KeyedProcessFunction):
    """Changes only its state."""

    total = rh.ValueState(int, default=0)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Total]:
        self.total.value = self.total.value ^ order.flags
        if order.flags < 0:
            yield Total(order.user, 0)


def toggle(order: Order) -> Order:
    return Order(order.user, order.flags ^ 4, order.at)


def encoded(order: Order) -> Order:
    return Order(order.user.encode().hex(), order.flags, order.at)


def squared(order: Order) -> Total:
    return Total(order.user, order.flags * order.flags * order.flags % 1009)


def inverse(order: Order) -> Total:
    return Total(order.user, 6 // (order.flags - 4))


# The first order with flag 4 is the fourth one, of the user u0.
ORDERS = [Order(f"u{at % 3}", at + 1, at) for at in range(40)]


def checked(add: Any, orders: list[Order] = ORDERS, most_rows: int = 1000) -> CompiledCheck:
    env = rh.Environment(2)
    time = rh.Watermark.monotonic(on="at")
    stream = env.from_source(rh.collection(orders, schema=Order), watermark=time, name="orders")
    add(stream).sink_to(rh.print_sink())
    return check_program(env.plan("check"), most_rows)


def only(check: CompiledCheck) -> CheckedFunctions:
    [found] = check.operators
    return found


def difference(check: CompiledCheck) -> FormDifference:
    assert not check.good
    result = only(check).result
    assert result is not None
    assert result.difference is not None
    return result.difference


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compiled code compute `|` for `^`."""
    monkeypatch.setitem(operator_writer._BITS, ast.BitXor, "|")


def test_forms_that_agree() -> None:
    check = checked(lambda orders: orders.key_by("user").process(Toggled()))
    assert check.good
    found = only(check)
    assert (found.functions, found.interpreted) == (("Toggled",), {})
    assert found.result is not None
    assert (found.result.rows, found.result.repeated) == (40, ())
    assert check.rows_read == {"orders": 40}


@pytest.mark.usefixtures("broken")
def test_the_first_record_that_differs_is_named() -> None:
    found = difference(checked(lambda orders: orders.map(toggle)))
    assert found.record == {"user": "u0", "flags": 4, "at": 3}
    assert found.key is None
    assert found.what == "output"
    assert found.interpreted == repr({"user": "u0", "flags": 0, "at": 3})
    assert found.compiled == repr({"user": "u0", "flags": 4, "at": 3})


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("function", [Toggled, Kept])
def test_a_difference_of_state_is_found_at_the_record_that_caused_it(function: Any) -> None:
    found = difference(checked(lambda orders: orders.key_by("user").process(function())))
    assert found.record is not None
    assert found.key == {"user": found.record["user"]}
    totals: dict[str, int] = {}
    for order in ORDERS:
        if totals.get(order.user, 0) & order.flags:
            assert found.record == vars(order)
            break
        totals[order.user] = totals.get(order.user, 0) | order.flags
    assert found.what.startswith("state")
    assert found.interpreted != found.compiled


@pytest.mark.usefixtures("broken")
def test_only_the_first_rows_are_read() -> None:
    check = checked(lambda orders: orders.map(toggle), most_rows=3)
    assert check.good
    assert check.rows_read == {"orders": 3}


def test_a_function_that_is_not_compiled_has_its_line_and_a_reason() -> None:
    found = only(checked(lambda orders: orders.map(encoded)))
    assert found.result is None
    line = encoded.__code__.co_firstlineno + 1
    assert found.interpreted == {
        "encoded": f"{__file__}:{line}: order.user.encode().hex() cannot be compiled"
    }
    found = only(checked(lambda orders: orders.key_by("user").reduce(lambda one, _: copy(one))))
    assert list(found.interpreted) == ["<lambda>"]


def test_a_choice_of_records_is_checked_with_its_state() -> None:
    found = only(checked(lambda orders: orders.key_by("user").reduce(lambda one, other: other)))
    assert found.functions == ("<lambda>",)
    assert found.result is not None
    assert found.result.difference is None


def test_calls_that_python_repeats_are_no_difference() -> None:
    orders = [*ORDERS, Order("u1", 1 << 40, 50)]
    check = checked(lambda orders: orders.map(squared), orders)
    assert check.good
    result = only(check).result
    assert result is not None
    [error] = result.repeated
    assert error.what.startswith("OverflowError")
    assert error.site is not None
    assert error.site.line == squared.__code__.co_firstlineno + 1


def test_an_error_of_both_forms_is_no_difference_but_ends_the_program() -> None:
    check = checked(lambda orders: orders.map(inverse))
    assert check.good
    assert check.error is not None
    assert check.error.what == "ZeroDivisionError: integer division or modulo by zero"


def test_without_a_compiler_the_check_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_check, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="no compiler is installed"):
        checked(lambda orders: orders.map(toggle))
