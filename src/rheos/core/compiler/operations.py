"""Operations on scalars that Python itself evaluates: building strings, parsing, and mathematics.

Compiled code passes the operands to the interpreter and continues with the result. So the result, or
the exception, is that of Python. Operands and results are int, float, bool and str. The tables below
have the kind of the result for each kind of operand, and only functions without side effects.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from rheos.core.compiler.values import EPOCH, KINDS, MICROSECOND, Kind

REMEMBERED = 1 << 12
"""Number of results of an operation that compiled code remembers. Later ones replace earlier ones."""


@dataclass(frozen=True)
class ScalarOperation:
    """An expression that Python evaluates."""

    code: str
    """Source code of the expression, in which `a0`, `a1`, ... are the operands."""
    operands: tuple[Kind, ...]
    nullable: tuple[bool, ...]
    """For each operand, whether it may be None."""
    result: Kind

    def function(self) -> Callable[..., Any]:
        """Return the expression as a function of its operands."""
        names = ", ".join(f"a{at}" for at in range(len(self.operands)))
        found: Callable[..., Any] = eval(f"lambda {names}: {self.code}", dict(_NAMES))
        return found

    def is_remembered(self) -> bool:
        """Return whether compiled code may store results by the operands, which are then integers."""
        kinds = {*self.operands, self.result}
        return bool(self.operands) and kinds <= {"int", "bool", "str"}

    def line_length(self) -> int:
        """Return the number of integers of a remembered result: whether it is set, the operands, and
        the result."""
        return len(self.operands) + 2


@dataclass(frozen=True)
class OperandKinds:
    """The kinds that a function takes and returns."""

    result: Kind
    takes: tuple[str, ...]
    """For each argument the kinds that it may have, separated by spaces."""
    required: int
    """Number of arguments that have no default."""

    def accepts(self, kinds: Sequence[Kind]) -> bool:
        if not self.required <= len(kinds) <= len(self.takes):
            return False
        return all(kind in takes.split() for kind, takes in zip(kinds, self.takes, strict=False))


_NUMBER, _WHOLE = "int float bool", "int bool"


def _signatures(
    result: Kind, names: str, *takes: str, required: int | None = None
) -> dict[str, OperandKinds]:
    needed = len(takes) if required is None else required
    return {name: OperandKinds(result, takes, needed) for name in names.split()}


METHODS: dict[str, OperandKinds] = {
    **_signatures("str", "upper lower title capitalize casefold swapcase"),
    **_signatures("str", "strip lstrip rstrip", "str none", required=0),
    **_signatures("str", "removeprefix removesuffix", "str"),
    **_signatures("str", "replace", "str", "str", _WHOLE, required=2),
    **_signatures("str", "zfill", _WHOLE),
    **_signatures("str", "ljust rjust center", _WHOLE, "str", required=1),
    **_signatures("bool", "startswith endswith", "str", _WHOLE, _WHOLE, required=1),
    **_signatures("bool", "isalpha isalnum isascii isdecimal isdigit isidentifier islower isnumeric"),
    **_signatures("bool", "isprintable isspace istitle isupper"),
    **_signatures("int", "find rfind index rindex count", "str", _WHOLE, _WHOLE, required=1),
}
"""Methods of strings, by name."""

LISTS: dict[str, OperandKinds] = {
    **_signatures("other", "split rsplit", "str none", _WHOLE, required=0),
    **_signatures("other", "partition rpartition", "str"),
    **_signatures("other", "splitlines", _WHOLE, required=0),
}
"""Methods of strings that return strings. Their result is used in the same expression."""


def _functions(
    result: Kind, names: str, *takes: str, required: int | None = None
) -> dict[Any, OperandKinds]:
    found = _signatures(result, names, *takes, required=required)
    return {getattr(math, name): signature for name, signature in found.items()}


FUNCTIONS: dict[Any, list[OperandKinds]] = {
    len: [OperandKinds("int", ("str",), 1)],
    ord: [OperandKinds("int", ("str",), 1)],
    str: [OperandKinds("str", (f"{_NUMBER} str none",), 1)],
    repr: [OperandKinds("str", (f"{_NUMBER} str none",), 1)],
    int: [OperandKinds("int", ("str", _WHOLE), 1)],
    float: [OperandKinds("float", ("str",), 1)],
    round: [
        OperandKinds("int", (_NUMBER,), 1),
        OperandKinds("int", (_WHOLE, _WHOLE), 2),
        OperandKinds("float", ("float", _WHOLE), 2),
    ],
    min: [OperandKinds("str", ("str",) * 8, 2)],
    max: [OperandKinds("str", ("str",) * 8, 2)],
    **{
        called: [signature]
        for called, signature in [
            *_functions(
                "float", "exp expm1 log2 log10 log1p sin cos tan asin acos atan", _NUMBER
            ).items(),
            *_functions("float", "sinh cosh tanh degrees radians cbrt", _NUMBER).items(),
            *_functions("float", "pow atan2 fmod copysign", _NUMBER, _NUMBER).items(),
            *_functions("float", "log", _NUMBER, _NUMBER, required=1).items(),
            *_functions("float", "hypot", *[_NUMBER] * 4, required=1).items(),
            *_functions("int", "gcd", *[_WHOLE] * 4, required=1).items(),
            *_functions("int", "isqrt", _WHOLE).items(),
        ]
    },
}
"""Functions that are no methods. The first signature that accepts the arguments is used."""

OPERATORS: dict[str, list[OperandKinds]] = {
    "+": [OperandKinds("str", ("str", "str"), 2)],
    "*": [OperandKinds("str", ("str", _WHOLE), 2), OperandKinds("str", (_WHOLE, "str"), 2)],
    "%": [OperandKinds("str", ("str", f"{_NUMBER} str none"), 2)],
    "**": [OperandKinds("float", ("float", _NUMBER), 2), OperandKinds("float", (_NUMBER, "float"), 2)],
    "<<": [OperandKinds("int", (_WHOLE, _WHOLE), 2)],
    ">>": [OperandKinds("int", (_WHOLE, _WHOLE), 2)],
    **{key: [OperandKinds("bool", ("str", "str"), 2)] for key in ("<", "<=", ">", ">=", "in")},
}
"""Operators that have no machine code for these operands."""

SAMPLES: dict[Kind, Any] = {"int": 7, "float": 1.5, "bool": True, "str": "a"}
"""A value of each kind, on which a format is tried."""


def is_error_class(given: Any) -> bool:
    """Return whether this is an exception of Python itself, whose creation has no side effects."""
    return (
        isinstance(given, type)
        and issubclass(given, Exception)
        and vars(builtins).get(given.__name__) is given
    )


def result_kind(result: Any) -> Kind | None:
    """Return the kind of a result; None if compiled code does not support it."""
    return KINDS.get(type(result))


def _raise_error(error: Exception) -> NoReturn:
    raise error


def _unpack(parts: Sequence[str], count: int, at: int) -> str:
    """Return an element of a sequence, which must have `count` elements, as Python unpacks it."""
    if len(parts) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(parts)})")
    if len(parts) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    return parts[at]


def _microseconds(timestamp: float) -> int:
    """Return the datetime of a number of seconds, as compiled code stores it."""
    return (datetime.fromtimestamp(timestamp, UTC) - EPOCH) // MICROSECOND


def _duration(**parts: float) -> int:
    """Return a timedelta, as compiled code stores it."""
    return timedelta(**parts) // MICROSECOND


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def _moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def _format_moment(microseconds: int, form: str) -> str:
    # The C code of `strftime` imports a module by the builtins of the calling frame.
    return _moment(microseconds).strftime(form)


_NAMES = {
    **{called.__name__: called for called in FUNCTIONS if called.__module__ == "builtins"},
    **{name: each for name, each in vars(builtins).items() if is_error_class(each)},
    "math": math,
    "microseconds": _microseconds,
    "moment": _moment,
    "duration": _duration,
    "span": _span,
    "format_moment": _format_moment,
    "raise_error": _raise_error,
    "unpack": _unpack,
    "__builtins__": {},
}
