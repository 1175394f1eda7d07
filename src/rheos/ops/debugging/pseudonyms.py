"""Pseudonyms of the values in an incident. Pure.

Equal values get equal pseudonyms, in all columns. The order of strings, bytes and numbers is kept. A
string keeps its form: letters stay letters, in their case, and digits stay digits. A number keeps its
sign and its number of digits. Booleans, times and nulls are not changed.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

Scalar: TypeAlias = str | bytes | int | float | Decimal

_CLASSES = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
_BLOCK = 64
"""Characters beyond ASCII are replaced by letters of the same block of this size."""


class Pseudonyms:
    """Pseudonyms of a fixed set of values.

    Args:
        values: Values of all columns that get pseudonyms, with their Arrow types.
        random: Source of the choices. With a known seed the values can be guessed.
    """

    def __init__(self, values: Iterable[tuple[Any, pa.DataType]], random: Random) -> None:
        scalars = {(type(value), value): kind for each in values for value, kind in _scalars(*each)}
        found: dict[type, dict[Any, pa.DataType]] = defaultdict(dict)
        for (of, value), kind in scalars.items():
            found[of][value] = kind
        self._of: dict[type, Mapping[Any, Any]] = {
            str: _strings(found[str], random),
            bytes: _bytes(found[bytes], random),
            **{kind: _numbers(found[kind], random) for kind in (int, float, Decimal)},
        }

    def of(self, value: Any) -> Any:
        """Return the pseudonym of a value, or of the values in a list or a struct.

        Raises:
            KeyError: The value is not in the set.
        """
        if isinstance(value, Mapping):
            return {name: self.of(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.of(each) for each in value)
        return self._of[type(value)][value] if _has_pseudonym(value) else value


def _has_pseudonym(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return _is_finite(value)
    return isinstance(value, str | bytes | int) and not isinstance(value, bool)


def _is_finite(value: float | Decimal) -> bool:
    return Decimal(repr(value) if isinstance(value, float) else value).is_finite()


def _scalars(value: Any, kind: pa.DataType) -> Iterator[tuple[Scalar, pa.DataType]]:
    """Yield the values in a value that get a pseudonym."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _scalars(each, kind.field(name).type)
    elif isinstance(value, list | tuple):
        pair = (kind.key_type, kind.item_type) if pa.types.is_map(kind) else None
        for each in value:
            if pair is None:
                yield from _scalars(each, kind.value_type)
            else:
                for part, of in zip(each, pair, strict=True):
                    yield from _scalars(part, of)
    elif _has_pseudonym(value):
        yield value, kind


# --- strings and bytes --------------------------------------------------------------------------------


def _strings(values: Collection[str], random: Random) -> dict[str, str]:
    return dict(_by_prefix(sorted(values), "", "", lambda chars: _characters(chars, random)))


def _bytes(values: Collection[bytes], random: Random) -> dict[bytes, bytes]:
    as_text = {value.decode("latin-1"): value for value in values}

    def chosen(chars: Sequence[str]) -> list[str]:
        return [chr(code) for code in sorted(random.sample(range(256), len(chars)))]

    named = _by_prefix(sorted(as_text), "", "", chosen)
    return {as_text[text]: pseudonym.encode("latin-1") for text, pseudonym in named}


def _by_prefix(
    values: Sequence[str], prefix: str, replaced: str, chosen: Callable[[Sequence[str]], Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield the pseudonyms of sorted strings with a common prefix. Other characters replace those after
    the prefix, in the same order, so the order of the strings is kept."""
    pending = [(list(values), len(prefix), replaced)]
    while pending:
        some, length, before = pending.pop()
        if some and len(some[0]) == length:
            yield some.pop(0), before
        groups = [(char, list(of)) for char, of in groupby(some, itemgetter(length))]
        others = chosen([char for char, _ in groups])
        pending += [
            (of, length + 1, before + other) for (_, of), other in zip(groups, others, strict=True)
        ]


def _characters(chars: Sequence[str], random: Random) -> list[str]:
    """Return other characters for ascending ones, of the same classes and in the same order."""
    found: list[str] = []
    for choice, of in groupby(chars, _class_of):
        count = len(list(of))
        found += choice if len(choice) == 1 else sorted(random.sample(choice, count))
    return found


def _class_of(char: str) -> str:
    """Return the characters that may replace one; itself alone if it is no letter and no digit."""
    for each in _CLASSES:
        if char in each:
            return each
    if not char.isalpha():
        return char
    first = ord(char) // _BLOCK * _BLOCK
    return "".join(filter(str.isalpha, map(chr, range(first, first + _BLOCK))))


# --- numbers ------------------------------------------------------------------------------------------


def _numbers(values: Mapping[Any, pa.DataType], random: Random) -> dict[Any, Any]:
    """Return other numbers, in the same order, with the same signs and numbers of digits."""
    groups: dict[tuple[bool, int], list[Any]] = defaultdict(list)
    exact = {value: Decimal(repr(value) if isinstance(value, float) else value) for value in values}
    for value, number in exact.items():
        if number:
            groups[number < 0, number.adjusted()].append(value)
    found = {value: value for value, number in exact.items() if not number}
    for (negative, adjusted), some in groups.items():
        some.sort(reverse=negative)
        finest = min(adjusted, *(_exponent(exact[value]) for value in some))
        low, high = 10 ** (adjusted - finest), 10 ** (adjusted - finest + 1) - 1
        for value in some:
            high = min(high, _largest(values[value], negative, high))
        picked = sorted(random.sample(range(low, high + 1), len(some)))
        for value, units in zip(some, picked, strict=True):
            number = Decimal(-units if negative else units).scaleb(finest)
            found[value] = type(value)(number)
    return found


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "infinite numbers have no pseudonym"
    return exponent


def _largest(kind: pa.DataType, negative: bool, otherwise: int) -> int:
    """Return the largest absolute value that an integer type holds on that side."""
    if not pa.types.is_integer(kind):
        return otherwise
    bits = kind.bit_width - pa.types.is_signed_integer(kind)
    return int(2**bits if negative else 2**bits - 1)
