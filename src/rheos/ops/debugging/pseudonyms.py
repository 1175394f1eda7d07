"""Pseudonyms of the values in an incident. Pure.

Equal values get equal pseudonyms, in all columns. The order of strings, bytes and numbers is kept. A
string keeps its form (`string_forms`). A number keeps its sign and its number of digits. Booleans,
times and nulls are not changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from rheos.ops.debugging.string_forms import CheckDigit, choices

Scalar: TypeAlias = str | bytes | int | float | Decimal


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
    forms = {value: choices(value) for value in values}

    def choice(value: str, at: int, before: str) -> str:
        each = forms[value][at]
        return each.after(before) if isinstance(each, CheckDigit) else each

    return dict(_by_prefix(sorted(values), choice, random))


def _bytes(values: Collection[bytes], random: Random) -> dict[bytes, bytes]:
    as_text = {value.decode("latin-1"): value for value in values}
    every = "".join(map(chr, range(256)))
    named = _by_prefix(sorted(as_text), lambda *_: every, random)
    return {as_text[text]: pseudonym.encode("latin-1") for text, pseudonym in named}


def _by_prefix(
    values: Sequence[str], choice: Callable[[str, int, str], str], random: Random
) -> Iterator[tuple[str, str]]:
    """Yield the pseudonyms of sorted strings.

    Strings with a common prefix have pseudonyms with a common prefix. The characters after it are
    replaced by others in the same order, so the order of the strings is kept.

    Args:
        values: The strings.
        choice: Function that returns the characters that may replace one. It receives the string, the
            position in it, and the pseudonym of the characters before.
        random: Source of the choices.
    """
    pending = [(list(values), "")]
    while pending:
        some, before = pending.pop()
        length = len(before)
        if some and len(some[0]) == length:
            yield some.pop(0), before
        groups = [(char, list(of)) for char, of in groupby(some, itemgetter(length))]
        fitting = [reduce(_common, (choice(value, length, before) for value in of)) for _, of in groups]
        chosen = _ascending(fitting, random)
        if chosen is None:
            # A card and a string without its check digit differ only here.
            chosen = [char for char, _ in groups]
        pending += [(of, before + other) for (_, of), other in zip(groups, chosen, strict=True)]


def _common(one: str, other: str) -> str:
    return one if one == other else "".join(char for char in one if char in other)


def _ascending(sets: Sequence[str], random: Random) -> list[str] | None:
    """Return an ascending sequence with one character of each set; None if none exists. All sequences
    have the same probability."""
    ways: list[dict[str, int]] = []
    """For each set, the number of sequences that begin there with a character."""
    for each in reversed(sets):
        after = ways[-1] if ways else None
        ways.append(
            {
                char: 1 if after is None else sum(n for next_, n in after.items() if next_ > char)
                for char in each
            }
        )
    found: list[str] = []
    for possible in reversed(ways):
        open_ = {char: n for char, n in possible.items() if n and not (found and char <= found[-1])}
        if not open_:
            return None
        found += random.choices(list(open_), list(open_.values()))
    return found


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
