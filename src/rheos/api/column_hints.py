"""Errors for columns that are read as attributes or items of a stream, as in pandas and PySpark."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from rheos.core.errors import ArgumentsError
from rheos.core.foreign_names import words
from rheos.core.site import call_site
from rheos.core.unknown_names import HintedBase, hint_for

_CALCULATE = (
    'calculate with columns: .with_columns(total=rh.col("price") * rh.col("n")), '
    '.filter(rh.col("price") > 10); the rows of two streams: .union(other)'
)
_SIGNS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift"),
    *("and_", "or_", "xor", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs"),
)
_REFLECTED = 14
"""Operators that also have a method for the right operand, such as `__radd__`."""


class WithColumns(HintedBase):
    """Base of streams that refuses attributes, items and operators which only columns have."""

    _by_name: ClassVar[str] = '.select("{}")'
    """Example of a method that takes a column by its name."""

    def _column_names(self) -> Sequence[str]:
        raise NotImplementedError

    def _advice_for(self, name: str) -> str:
        if name not in self._column_names():
            known = hint_for(name, [*dir(type(self)), *self._elsewhere], self._sections)
            close = [] if known else get_close_matches(name, self._column_names(), 1, 0.75)
            return f"did you mean the column {close[0]!r}? {self._column(close[0])}" if close else ""
        method = hint_for(name, (), self._sections)
        return self._column(name) + (f"; the method: {method}" if method else "")

    def _column(self, name: str) -> str:
        return f'a column is written rh.col("{name}"), or by its name: {self._by_name.format(name)}'

    def _refused(self, what: str, hint: str) -> ArgumentsError:
        return ArgumentsError(f"{self._kind} {what}", site=call_site(), hint=hint)

    if not TYPE_CHECKING:

        def __getitem__(self, item: Any) -> NoReturn:
            names = [item] if isinstance(item, str) else item
            if isinstance(names, list | tuple) and names and all(isinstance(one, str) for one in names):
                joined = '", "'.join(names)
                hint = self._column(names[0]) if len(names) == 1 else self._by_name.format(joined)
            elif isinstance(item, int | slice):
                hint = _words("show", self._sections)
            else:
                hint = 'select rows with .filter(rh.col("price") > 10), columns with .select("price")'
            raise self._refused("has no items and cannot be iterated", hint)

        def __setitem__(self, item: Any, value: Any) -> NoReturn:
            name = item if isinstance(item, str) and item.isidentifier() else "total"
            hint = f'add a column: .with_columns({name}=rh.col("price") * rh.col("n"))'
            raise self._refused("cannot be changed in place", hint)

        def __len__(self) -> NoReturn:
            method = _words("count", self._sections)
            counted = method.replace('total=rh.agg.sum("price")', "n=rh.agg.count()")
            raise self._refused("has no length", f"count rows: {counted}")

        def __bool__(self) -> NoReturn:
            hint = "compare it with None: `if stream is not None`; combine streams: .union(other)"
            raise self._refused("is neither true nor false", hint)


def _words(name: str, sections: Sequence[str]) -> str:
    return next((words(each)[name] for each in sections if name in words(each)), "")


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: WithColumns, *_: Any) -> NoReturn:
        raise self._refused(f"is not a value: it has no operator {name.rstrip('_')!r}", _CALCULATE)

    return refuse


for _place, _sign in enumerate(_SIGNS):
    assert hasattr(operator, _sign)
    setattr(WithColumns, f"__{_sign.rstrip('_')}__", _refusing(_sign))
    if _place < _REFLECTED:
        setattr(WithColumns, f"__r{_sign.rstrip('_')}__", _refusing(_sign))
