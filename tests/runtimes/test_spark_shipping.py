"""What a script defines reaches the workers, whatever the process has done with it before."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rheos.runtimes.spark_shipping import pack


def test_a_record_class_ships_after_it_was_decoded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook that has run a job simulated, and now runs it on Spark."""

    @dataclass
    class Visit:
        user: int

    decoder = msgspec.msgpack.Decoder(Visit)
    shipped: Any = pickle.loads(pack(Visit))
    assert shipped is not None
    assert msgspec.convert({"user": 7}, shipped).user == 7
    assert decoder.decode(msgspec.msgpack.encode(Visit(8))) == Visit(8)
    assert msgspec.convert({"user": 9}, Visit) == Visit(9)
