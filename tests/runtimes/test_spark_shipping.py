"""What a script defines reaches the workers, whatever the process has done with it before."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rheos.errors import ProgramError
from rheos.runtimes.spark_shipping import pack


def test_what_cannot_be_pickled_is_the_programs_fault() -> None:
    lock = threading.Lock()
    with pytest.raises(
        ProgramError, match=r"cannot be sent to the workers: cannot pickle '_thread.lock'"
    ):
        pack(lambda row: lock)


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
