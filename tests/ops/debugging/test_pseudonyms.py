"""Pseudonyms keep equality, order and form."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rheos.ops.debugging.pseudonyms import Pseudonyms

KINDS: dict[type, pa.DataType] = {
    str: pa.string(),
    bytes: pa.binary(),
    int: pa.int64(),
    float: pa.float64(),
    Decimal: pa.decimal128(20, 4),
}


def drawn(random: Random) -> dict[type, list[Any]]:
    return {
        str: ["".join(random.choices("aZ9 é-Ω", k=random.randrange(5))) for _ in range(20)],
        bytes: [random.randbytes(random.randrange(3)) for _ in range(20)],
        int: [random.randrange(-(10**8), 10**9) // 10 ** random.randrange(9) for _ in range(20)],
        float: [round(random.uniform(-1e6, 1e6), random.randrange(4)) for _ in range(20)],
        Decimal: [Decimal(random.randrange(-(10**6), 10**6)) / 100 for _ in range(20)],
    }


@pytest.mark.parametrize("seed", range(10))
def test_equality_order_and_form_are_kept(seed: int) -> None:
    values = drawn(Random(seed))
    typed = [(value, KINDS[kind]) for kind, of in values.items() for value in of]
    pseudonyms = Pseudonyms(typed, Random(seed))
    changed = 0
    for kind, of in values.items():
        for one, other in pairwise(sorted(of)):
            a, b = pseudonyms.of(one), pseudonyms.of(other)
            assert (a < b) == (one < other)
            assert (a == b) == (one == other)
            assert type(a) is kind
            changed += a != one
            if isinstance(one, str):
                assert [form(c) for c in a] == [form(c) for c in one]
            if kind is int and one:
                assert len(str(a)) == len(str(one))
    assert changed > len(typed) / 3


def form(char: str) -> str:
    if not char.isalnum():
        return char
    return "9" if char.isdigit() else "é" if ord(char) > 127 else "Z" if char.isupper() else "a"


def test_values_in_lists_and_structs_get_pseudonyms_and_others_do_not() -> None:
    kind = pa.struct({"name": pa.string(), "flags": pa.list_(pa.int8())})
    value = {"name": "ada", "flags": [127, None, 0]}
    pseudonyms = Pseudonyms([(value, kind), ("ada", pa.string())], Random(1))
    found = pseudonyms.of(value)
    assert found["name"] == pseudonyms.of("ada") != "ada"
    assert 100 <= found["flags"][0] <= 127
    assert found["flags"][1:] == [None, 0]
    for other in (None, True, float("nan"), float("inf")):
        assert repr(pseudonyms.of(other)) == repr(other)
    with pytest.raises(KeyError):
        pseudonyms.of("bob")
