"""Values of declared state that cannot be read: the error names the state, with a hint. Values of older
types are tested in `tests/core/checkpoint/test_type_changes.py`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rheos.core.errors import CheckpointError
from rheos.core.state.codec import ValueCodec


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")


@pytest.mark.parametrize(
    ("declared", "data", "why"),
    [
        (int, msgspec.msgpack.encode("a"), "Expected `int`, got `str`"),
        (
            list[Positive],
            msgspec.msgpack.encode([{"n": 1}, {}]),
            "missing required field `n` - at `$[1]`",
        ),
        (Positive, msgspec.msgpack.encode({"n": -1}), "n is negative"),
        (set[tuple[int, ...]], b"", "truncated"),
        (object, pickle.dumps(1)[:-1], "EOFError"),
        (object, b"cno_such_module\nThing\n.", "No module named 'no_such_module'"),
    ],
)
def test_the_error_for_an_unreadable_value_names_its_state(
    declared: Any, data: bytes, why: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        ValueCodec("total", declared).decode(data)
    assert "a stored value of state 'total' cannot be read as" in caught.value.what
    assert why in caught.value.what
    assert "rheos check" in str(caught.value.hint)
