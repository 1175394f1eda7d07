"""The checker of the Kafka soak finds the traces of a defect."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchmarks.paper.soak_check import Out, Sequences, Verdict

SENT = {7: 3, 8: 2}


def out(key: int, number: int, **wrong: int) -> Out:
    right = {"seen": number + 1, "running": number + 1}
    return Out(key=key, number=number, sent_us=0, **{**right, **wrong})


RIGHT = [out(7, 0), out(8, 0), out(7, 1), out(7, 2), out(8, 1)]


def verdict(records: Iterable[Out]) -> Verdict:
    sequences = Sequences()
    for record in records:
        sequences.take(record)
    return sequences.verdict(SENT)


def found(records: list[Out]) -> dict[str, int]:
    """Return the problems that the checker finds in the records."""
    judged = verdict(records)
    wrong = ("lost", "doubled", "foreign", "out_of_order", "miscounted")
    return {name: getattr(judged, name) for name in wrong if getattr(judged, name)}


def test_correct_records_pass() -> None:
    assert verdict(RIGHT) == Verdict(5, 0, 0, 0, 0, 0)
    assert verdict(RIGHT).ok


@pytest.mark.parametrize(
    ("records", "wrong"),
    [
        ([out(7, 0), out(7, 2), out(8, 0), out(8, 1)], {"lost": 1, "out_of_order": 1}),
        (RIGHT[:-1], {"lost": 1}),
        ([], {"lost": 5}),
        ([*RIGHT, out(7, 1)], {"doubled": 1}),
        ([out(7, 1), out(7, 1), *RIGHT], {"out_of_order": 1, "doubled": 2}),
        ([out(7, 1), out(7, 0), *RIGHT[3:], out(8, 0)], {"out_of_order": 2}),
        ([*RIGHT, out(8, 2), out(9, 0)], {"foreign": 2}),
        ([*RIGHT[:-1], out(8, 1, seen=3)], {"miscounted": 1}),
        ([*RIGHT[:-1], out(8, 1, running=1)], {"miscounted": 1}),
    ],
    ids=[
        "lost",
        "last lost",
        "all lost",
        "doubled",
        "ahead and doubled",
        "swapped",
        "foreign",
        "state",
        "aggregate",
    ],
)
def test_wrong_records_are_found(records: list[Out], wrong: dict[str, int]) -> None:
    assert found(records) == wrong
    assert not verdict(records).ok
