"""Operations that Python evaluates have the kinds that the tables declare, or raise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from rheos.core.compiler.operations import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    OperandKinds,
    ScalarOperation,
    result_kind,
)
from rheos.core.compiler.values import Kind

VALUES: dict[str, list[Any]] = {
    "int": [0, 1, -1, 3, 7, 40, -9],
    "float": [0.0, -0.0, 0.5, -2.5, 3.0, 1e300, float("nan"), float("inf")],
    "bool": [False, True],
    "str": ["", "a", "B c", "12", " -7 ", "1.5", "straße", "٣", "e\u0301", "%d", "a,b,,c"],
    "none": [None],
}


def operations() -> Iterator[tuple[str, OperandKinds]]:
    """Return the code of each operation of the tables, and its signature with all operands."""
    for name, found in METHODS.items():
        takes = ("str", *found.takes)
        given = OperandKinds(found.result, takes, found.required + 1)
        yield f"a0.{name}({{}})", given
    for called, signatures in FUNCTIONS.items():
        module = "math." if called.__module__ == "math" else ""
        for signature in signatures:
            yield f"{module}{called.__name__}({{}})", signature
    for symbol, signatures in OPERATORS.items():
        for signature in signatures:
            yield f"a0 {symbol} a1", signature


@pytest.mark.parametrize(
    ("code", "signature"), [pytest.param(*each, id=each[0]) for each in operations()]
)
def test_a_result_has_the_declared_kind(code: str, signature: OperandKinds) -> None:
    rng = Random(code)
    fitting = 0
    for count in range(signature.required, len(signature.takes) + 1):
        names = [f"a{at}" for at in range(count)]
        written = code.format(", ".join(names[1:] if code.startswith("a0.") else names))
        choices = [takes.split() for takes in signature.takes[:count]]
        for kinds in itertools.islice(itertools.product(*choices), 64):
            operation = ScalarOperation(written, kinds_of(kinds), (False,) * count, signature.result)
            work = operation.function()
            for _ in range(30):
                try:
                    result = work(*(rng.choice(VALUES[kind]) for kind in kinds))
                except (ArithmeticError, LookupError, TypeError, ValueError):
                    continue
                if isinstance(result, complex):
                    continue  # Compiled code fails, as of an integer that exceeds 64 bits.
                assert result_kind(result) == signature.result
                fitting += 1
    assert fitting


def kinds_of(names: tuple[str, ...]) -> tuple[Kind, ...]:
    kinds: list[Kind] = [kind for name in names for kind in _ALL if kind == name]
    return tuple(kinds)


_ALL: tuple[Kind, ...] = ("int", "float", "bool", "str", "none")


def test_results_with_operands_that_are_numbers_in_memory_are_remembered() -> None:
    def remembered(operands: tuple[Kind, ...], result: Kind) -> bool:
        return ScalarOperation("", operands, (False,) * len(operands), result).is_remembered()

    assert remembered(("str", "int"), "str")
    assert remembered(("bool",), "int")
    assert not remembered(("float",), "str")
    assert not remembered(("str",), "float")
    assert not remembered((), "str")
