"""CP22: verdicts on changed types, compared with the real effect: values are written with the old type
and read with the new one."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.type_changes import Change, Verdict, changes, found_by
from rheos.core.state.codec import ValueCodec
from rheos.core.state.describe import type_shape

SAME, MIGRATES = Verdict.SAME, Verdict.MIGRATES
DROPPED, UNREADABLE = Verdict.DROPPED, Verdict.UNREADABLE


def found(old: Any, new: Any) -> list[Change]:
    return changes(type_shape("s", old), type_shape("s", new))


def verdict(old: Any, new: Any) -> Verdict:
    """Return the gravest verdict."""
    verdicts = [change.verdict for change in found(old, new)]
    return max(verdicts, key=lambda one: one.gravity, default=SAME)


def written(declared: Any, value: Any) -> bytes:
    (data,) = ValueCodec("s", declared).encode([value], ["key"])
    return data


def reread(old: Any, new: Any, value: Any) -> Any:
    return ValueCodec("s", new).decode(written(old, value))


class Unread:
    """Result for a value that cannot be read."""


def outcome(old: Any, new: Any, value: Any) -> Any:
    try:
        return reread(old, new, value)
    except Exception:
        return Unread


# --- one change after the other -----------------------------------------------------------------------


class Size(enum.Enum):
    S = "s"
    M = "m"


class Size3(enum.Enum):
    S = "s"
    M = "m"
    L = "l"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def record(name: str = "Event", /, **fields: Any) -> Any:
    """Create a dataclass. A field is a type, or a type and its default."""
    made = []
    for key, said in fields.items():
        kind, *default = said if isinstance(said, tuple) else (said,)
        made.append((key, kind, field(default=default[0])) if default else (key, kind))
    return make_dataclass(name, made)


class Pair(NamedTuple):
    x: int
    y: int


class Triple(NamedTuple):
    x: int
    y: int
    z: int = 9


class Swapped(NamedTuple):
    y: int
    x: int


@dataclass
class Old:
    n: int
    tags: list[str]
    size: Size


@dataclass
class Tree:
    value: int
    below: list[Tree] = field(default_factory=list)


Wider = make_dataclass(
    "Tree", [("value", float), ("below", "list[Wider]", field(default_factory=list)), ("x", int, 7)]
)
Wider.__module__ = __name__


class Said(TypedDict):
    n: int


class SaidMore(TypedDict, total=False):
    n: int
    m: int


INNER = record("Inner", a=int)
INNER_MORE = record("Inner", a=int, b=(str, "-"))
INNER_STRICT = record("Inner", a=int, b=str)
EVENT = record(n=int, inner=INNER)
AB, A = record(a=int, b=str), record(a=int)
Kept = Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


def as_(kind: Any) -> Kept:
    """Return the fields of the value that the class has, and its defaults for the others."""

    def made(value: Any) -> Any:
        names = {one.name for one in dataclasses.fields(kind)}
        return kind(**{k: v for k, v in vars(value).items() if k in names})

    return made


@pytest.mark.parametrize(
    ("old", "new", "path", "expected", "values", "read_as"),
    [
        # A field more, a field less.
        (A, record(a=int, b=(str, "-")), "b", MIGRATES, [A(1)], as_(record(a=int, b=(str, "-")))),
        (A, AB, "b", UNREADABLE, [A(1)], None),
        (AB, A, "b", DROPPED, [AB(1, "x")], as_(A)),
        (AB, record(b=str, a=int), "", MIGRATES, [AB(1, "x")], as_(record(b=str, a=int))),
        (A, record("Renamed", a=int), "", MIGRATES, [A(1)], as_(record("Renamed", a=int))),
        (A, record("Other", b=(int, 0)), "", UNREADABLE, [A(1)], None),
        (A, record(a=(int, 5)), "", SAME, [A(1)], as_(record(a=(int, 5)))),
        # Deep inside.
        (EVENT, record(n=int, inner=INNER_MORE), "inner.b", MIGRATES, [EVENT(1, INNER(2))], None),
        (EVENT, record(n=int, inner=INNER_STRICT), "inner.b", UNREADABLE, [EVENT(1, INNER(2))], None),
        (list[A], list[AB], "[].b", UNREADABLE, [[A(1)]], None),
        (dict[str, AB], dict[str, A], "[].b", DROPPED, [{"k": AB(1, "x")}], lambda v: {"k": A(1)}),
        (Tree, Wider, "value", MIGRATES, [Tree(1, [Tree(2)])], lambda v: Wider(1.0, [Wider(2.0)])),
        # Wider types.
        (int, float, "", MIGRATES, [0, -3, 2**53], float),
        (float, int, "", UNREADABLE, [1.5], None),
        (int, Decimal, "", MIGRATES, [7], Decimal),
        (float, Decimal, "", MIGRATES, [1.5], Decimal),
        (Decimal, float, "", UNREADABLE, [Decimal("1.5")], None),
        (bool, int, "", UNREADABLE, [True], None),
        (int, bool, "", UNREADABLE, [1], None),
        (int, str, "", UNREADABLE, [1], None),
        (str, bytes, "", UNREADABLE, ["a"], None),
        (bytes, bytearray, "", MIGRATES, [b"a"], bytearray),
        (int, int | None, "", MIGRATES, [1], same),
        (int | None, int, "", UNREADABLE, [None, 1], None),
        (int | None, float | None, "", MIGRATES, [None, 1], same),
        (int, int | str, "", MIGRATES, [1], same),
        (int | str, int, "", UNREADABLE, ["a"], None),
        (int | str, float | str | None, "", MIGRATES, [1, "a"], same),
        (A | None, AB | None, "b", UNREADABLE, [A(1)], None),
        (int, Level | float, "", UNREADABLE, [7], None),
        (date, str, "", MIGRATES, [date(2024, 2, 29)], str),
        (UUID, str, "", MIGRATES, [UUID(int=7)], str),
        (str, date, "", UNREADABLE, ["a"], None),
        (datetime, str, "", UNREADABLE, [datetime(2024, 1, 1, tzinfo=UTC)], None),
        (int, datetime, "", UNREADABLE, [1], None),
        # Limits.
        (Annotated[int, msgspec.Meta(ge=0)], int, "", MIGRATES, [1], same),
        (int, Annotated[int, msgspec.Meta(ge=0)], "", UNREADABLE, [-1], None),
        # Choices.
        (Size, Size3, "", MIGRATES, [Size.S, Size.M], lambda v: Size3(v.value)),
        (Size3, Size, "", UNREADABLE, [Size3.L], None),
        (Size, str, "", MIGRATES, [Size.S], lambda v: v.value),
        (str, Size, "", UNREADABLE, ["x"], None),
        (Level, int, "", MIGRATES, [Level.LOW], int),
        (Level, str, "", UNREADABLE, [Level.LOW], None),
        (Size, Literal["s", "m"], "", MIGRATES, [Size.M], lambda v: v.value),
        (Literal["s"], Size, "", MIGRATES, ["s"], Size),
        (Literal["s", 1], Literal["s"], "", UNREADABLE, [1], None),
        # Containers.
        (list[int], list[float], "[]", MIGRATES, [[1, 2]], same),
        (list[int], tuple[int, ...], "", MIGRATES, [[1, 2]], tuple),
        (tuple[int, int], tuple[int, int, int], "", UNREADABLE, [(1, 2)], None),
        (tuple[int, str], tuple[float, str], "[0]", MIGRATES, [(1, "a")], same),
        (tuple[int, int], list[int], "", MIGRATES, [(1, 2)], list),
        (set[int], list[int], "", MIGRATES, [{1, 2}], sorted),
        (set[int], frozenset[int], "", MIGRATES, [{1, 2}], same),
        (list[int], set[int], "", UNREADABLE, [[1, 1]], None),
        (dict[str, int], dict[str, float], "[]", MIGRATES, [{"a": 1}], same),
        (dict[int, int], dict[str, int], "[key]", UNREADABLE, [{1: 1}], None),
        (list[int], dict[str, int], "", UNREADABLE, [[1]], None),
        (A, dict[str, int], "", UNREADABLE, [A(1)], None),
        (Pair, Triple, "z", MIGRATES, [Pair(1, 2)], lambda v: Triple(1, 2)),
        (Triple, Pair, "z", UNREADABLE, [Triple(1, 2, 3)], None),
        (Pair, Swapped, "", UNREADABLE, [Pair(1, 2)], None),
        (Said, SaidMore, "m", MIGRATES, [{"n": 1}], same),
        (SaidMore, Said, "m", DROPPED, [{"n": 1, "m": 2}], lambda v: {"n": 1}),
        # What declares nothing.
        (object, int, "", UNREADABLE, [1], None),
        (int, object, "", UNREADABLE, [1], None),
        (list, object, "", MIGRATES, [[1, "a"]], same),
        (object, Any, "", MIGRATES, [np.float64(1.5)], same),
        (list, dict, "", UNREADABLE, [[1]], None),
    ],
)
def test_a_change_has_the_predicted_outcome(
    old: Any, new: Any, path: str, expected: Verdict, values: Sequence[Any], read_as: Kept | None
) -> None:
    told = found(old, new)
    assert path in [change.path for change in told if change.verdict is expected] or expected is SAME
    assert verdict(old, new) is expected
    results = [outcome(old, new, value) for value in values]
    if expected is UNREADABLE and "pickle" not in {
        type_shape("s", old).name,
        type_shape("s", new).name,
    }:
        assert any(
            result is Unread or result != value or type(result) is not type(value)
            for result, value in zip(results, values, strict=True)
        )
    elif expected is not UNREADABLE:
        assert Unread not in results
        if read_as is not None:
            again = [read_as(value) for value in values]
            assert [str(one) for one in results] == [str(one) for one in again] or results == again


# --- all pairs, in all places -------------------------------------------------------------------------

SAMPLES: dict[Any, list[Any]] = {
    bool: [True, False],
    int: [0, 1, -5, 2**62],
    float: [0.5, 1.0, float("inf")],
    str: ["", "s", "no number", "é"],
    bytes: [b"", b"\xff"],
    Decimal: [Decimal("1.50"), Decimal(-3)],
    date: [date(2024, 2, 29)],
    time: [time(1, 2, 3)],
    datetime: [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)],
    timedelta: [timedelta(seconds=90)],
    UUID: [UUID(int=5)],
    Size: list(Size),
    Size3: list(Size3),
    Level: list(Level),
    Literal["s"]: ["s"],
    Literal["s", "x", 1]: ["s", "x", 1],
    int | None: [None, 3],
    int | str: [7, "t"],
    float | str | None: [1.5, "u", None],
    Size | int: [Size.M, 4],
    list[int]: [[], [1, 1]],
    list[float]: [[1.5]],
    list[str]: [["a", "a"]],
    set[int]: [{3}],
    frozenset[str]: [frozenset({"b"})],
    tuple[int, ...]: [(), (1, 1)],
    tuple[int, str]: [(1, "c")],
    tuple[int, int]: [(1, 1)],
    dict[str, int]: [{}, {"a": 1}],
    dict[str, float]: [{"a": 0.5}],
    dict[int, str]: [{1: "d"}],
    A: [A(1)],
    AB: [AB(2, "e")],
    record(a=float, b=(str, "-")): [],
    record(a=int | None): [],
    INNER: [INNER(3)],
    INNER_MORE: [INNER_MORE(4, "f")],
    EVENT: [EVENT(1, INNER(5))],
    Pair: [Pair(1, 2)],
    Triple: [Triple(1, 2, 3)],
    Tree: [Tree(1, [Tree(2)])],
    object: [{"any": 1}],
}


def check_pair(old: Any, new: Any, values: Sequence[Any]) -> None:
    """Check that values which are declared readable are read without an error, and others wrongly or
    not at all."""
    results = [outcome(old, new, value) for value in values]
    if verdict(old, new) is not UNREADABLE:
        assert Unread not in results, (old, new, found(old, new))
    elif values and "pickle" not in {type_shape("s", old).name, type_shape("s", new).name}:
        assert any(
            result is Unread or result != value or type(result) is not type(value)
            for result, value in zip(results, values, strict=True)
        ), (old, new, found(old, new))


@pytest.mark.parametrize("old", SAMPLES, ids=str)
def test_every_type_against_every_other(old: Any) -> None:
    for new in SAMPLES:
        check_pair(old, new, SAMPLES[old])
    assert found(old, old) == []


PLACES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda kind: list[kind], lambda value: [value]),
    (lambda kind: tuple[kind, ...], lambda value: (value, value)),
    (lambda kind: dict[str, kind], lambda value: {"k": value}),
    (lambda kind: tuple[str, kind], lambda value: ("t", value)),
    (lambda kind: record("Holder", inside=kind, n=(int, 3)), lambda value: value),
]


@given(
    old=st.sampled_from([kind for kind in SAMPLES if kind is not object]),
    new=st.sampled_from([kind for kind in SAMPLES if kind is not object]),
    places=st.lists(st.sampled_from(PLACES), max_size=3),
)
def test_a_change_has_the_same_verdict_at_any_depth(old: Any, new: Any, places: list[Any]) -> None:
    expected, values = verdict(old, new), SAMPLES[old]
    for kind_of, value_of in places:
        before = kind_of(old)
        if dataclasses.is_dataclass(before):
            values = [before(inside=value) for value in values]
        else:
            values = [value_of(value) for value in values]
        old, new = before, kind_of(new)
    assert verdict(old, new) is expected
    for value in values:
        assert (outcome(old, new, value) is Unread) <= (expected is UNREADABLE)


# --- keys of maps -------------------------------------------------------------------------------------


def test_map_keys_are_found_again_or_refused() -> None:
    found_again = 0
    for old, new in itertools.product(SAMPLES, SAMPLES):
        told = found_by(found(old, new))
        if any(change.verdict is UNREADABLE for change in told) or object in (old, new):
            continue
        for value in SAMPLES[old]:
            assert written(new, reread(old, new, value)) == written(old, value)
            found_again += old is not new
    assert found_again > 50


def test_map_keys_cannot_be_widened_if_their_encoding_changes() -> None:
    assert [change.verdict for change in found_by(found(int, float))] == [UNREADABLE]
    assert [change.verdict for change in found_by(found(int, int | None))] == [MIGRATES]
    assert [change.verdict for change in found_by(found(AB, record(b=str, a=int)))] == [UNREADABLE]


# --- what is said -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (int, str, "was int, is now str"),
        (int, int | None, "may now also be None"),
        (int | None, int, "None is no longer allowed: is now int"),
        (A, AB, "is new and has no default: stored values would lack it"),
        (AB, A, "Event no longer has it"),
        (A, record("Renamed", a=int), "was called Event, is now Renamed"),
        (Size3, Size, "Size no longer has 'l'"),
        (list[int], set[int], "was list[int], is now set[int]"),
        (object, int, "was object (pickled), is now int, which is not"),
        (record(a=int), record(a=(dict[str, int], None)), "was int, is now dict[str, int]"),
    ],
)
def test_descriptions_of_changes(old: Any, new: Any, text: str) -> None:
    assert [change.text for change in found(old, new)] == [text]
