"""The operator compared with brute force for each key, however rows are split, restored and
rescaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.patterns import Pattern
from rheos.core.errors import ProgramError, UserFunctionError
from rheos.core.operators.pattern.pattern_compiler import compiled
from rheos.core.protocol.elements import WatermarkMark
from rheos.testing import OperatorExample, check_example
from rheos.testing.harness import REPLAYS, ReplayMode, replay
from tests.patterns.brute import Brute, Taken
from tests.patterns.drawn import LETTERS, PatternDraw, drawn_rows
from tests.patterns.test_matcher import holds_for

FAR_MS = 10_000
MODES = [
    mode
    for mode in REPLAYS
    if mode.name in ("whole", "rescaled at every pause", "with lost checkpoints", "from savepoints")
]
"""Those in which a pattern could go wrong in a way of its own; its example goes through all."""
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("at", pa.int64()),
        ("key", pa.string()),
        *((letter, pa.bool_()) for letter in LETTERS),
    ]
)


def stream_of(random: Random, keys: int, rows_of_key: int) -> list[dict[str, Any]]:
    """Return rows of several keys, by time; `n` counts them."""
    rows = []
    for key in range(keys):
        letters, times = drawn_rows(random, random.randint(2, rows_of_key))
        for of_row, at_ms in zip(letters, times, strict=True):
            rows.append((at_ms, f"k{key}", of_row))
    rows.sort(key=lambda row: row[0])
    return [
        {"n": n, "at": at_ms, "key": key, **{name: name in of_row for name in LETTERS}}
        for n, (at_ms, key, of_row) in enumerate(rows)
    ]


def shuffled(random: Random, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the rows out of order, with watermarks that make none of them late."""
    script: list[Any] = []
    waiting: list[Mapping[str, Any]] = []
    for at, row in enumerate(rows):
        waiting.append(row)
        if random.random() < 0.3:
            random.shuffle(waiting)
            script += waiting
            waiting = []
            later = rows[at + 1 :]
            if later and later[0]["at"] > row["at"]:
                script.append(WatermarkMark(row["at"]))
    return script + waiting


def expected(pattern: Pattern, rows: Sequence[Mapping[str, Any]]) -> dict[bool, list[Any]]:
    """Return, by whether it timed out, the numbers of the rows that each match took, by step."""
    found: dict[bool, list[Any]] = {False: [], True: []}
    for key in sorted({row["key"] for row in rows}):
        own = [row for row in rows if row["key"] == key]
        letters = [frozenset(name for name in LETTERS if row[name]) for row in own]
        brute = Brute(pattern.tree(), [row["at"] for row in own], partial(holds_for, letters))
        for outcome in brute.outcomes(FAR_MS):
            found[outcome.timed_out].append((key, outcome.at_ms, _by_step(outcome.taken, own)))
    return {timed_out: sorted(each) for timed_out, each in found.items()}


def _by_step(taken: Taken, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    return sorted((step, rows[place]["n"]) for place, step in taken)


def given(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    found = []
    for row in rows:
        taken = []
        for step, value in row.items():
            if step in ("key", "__ts", "__wm", "__swm"):
                continue
            each = value if isinstance(value, list) else [value] * (value is not None)
            taken += [(step, of_row["n"]) for of_row in each]
        found.append((row["key"], row["__ts"], sorted(taken)))
    return sorted(found)


@pytest.mark.parametrize("seed", range(6))
def test_random_patterns_have_equal_matches_in_every_replay(seed: int) -> None:
    random = Random(f"operator {seed}")
    while True:
        tree = PatternDraw(random).pattern()
        try:
            compiled(tree)
            break
        except ProgramError:
            continue
    pattern = Pattern(tree.parts, tree.after_match, tree.within_ms)
    rows = stream_of(random, keys=3, rows_of_key=5)

    def detect(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        found = stream.key_by("key").detect(pattern)
        return {"found": found, "timed out": found.side_output("timed_out")}

    example = OperatorExample(detect, SCHEMA, shuffled(random, rows), on="at")
    wanted = expected(pattern, rows)
    for mode in MODES:
        came = replay(example, mode)
        assert given(came["found"]) == wanted[False], f"{mode.name}: {tree}"
        assert given(came["timed out"]) == wanted[True], f"{mode.name}: {tree}"


def row(n: int, key: str, letters: str) -> dict[str, Any]:
    return {"n": n, "at": n, "key": key, **{name: name in letters for name in LETTERS}}


def test_late_rows_are_not_matched() -> None:
    pattern = rh.pattern.begin("x").where(rh.col("a")).next("y").where(rh.col("b"))

    def detect(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        found = stream.key_by("key").detect(pattern)
        return {"found": found, "late": found.side_output("late")}

    script = [row(1, "k", "a"), row(4, "k", "b"), WatermarkMark(4), row(2, "k", "c")]
    came = check_example(OperatorExample(detect, SCHEMA, script, on="at"))
    assert [(each["x"]["n"], each["y"]["n"]) for each in came["found"]] == [(1, 4)]
    assert [each["n"] for each in came["late"]] == [2]


def test_unneeded_rows_and_keys_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.core.operators.pattern.operator.LEAST_ROWS", 4)
    pattern = rh.pattern.begin("x").where(rh.col("a")).followed_by("y").where(rh.col("b")).within("9ms")

    def detect(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        found = stream.key_by("key").detect(pattern)
        return {"found": found, "timed out": found.side_output("timed_out")}

    script: list[Any] = []
    for n in range(36):
        script.append(row(n, f"k{n % 20}" if n % 3 else "k", "b" if n % 5 == 4 else "a"))
        if n % 4 == 3:
            script.append(WatermarkMark(n))
    example = OperatorExample(detect, SCHEMA, script, on="at")
    came = replay(example)
    assert [each["y"]["n"] for each in came["found"] if each["key"] == "k"]
    mode = ReplayMode("from chains", parallelisms=(2, 3), checkpoint_every=2, restore_every=8)
    again = replay(example, mode)
    assert given(again["found"]) == given(came["found"])
    assert given(again["timed out"]) == given(came["timed out"])


def test_an_error_of_a_condition_names_record_and_key() -> None:
    def breaks(row: Any) -> bool:
        return bool(1 // (row.n - 2))

    pattern = rh.pattern.begin("x").where(breaks)
    example = OperatorExample(
        lambda stream: stream.key_by("key").detect(pattern),
        SCHEMA,
        [row(1, "k", "a"), row(2, "k", "a")],
        on="at",
    )
    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as raised:
        replay(example)
    assert raised.value.key == "'k'"
    assert "n=2" in str(raised.value.record)


def test_a_condition_must_return_a_boolean() -> None:
    pattern = rh.pattern.begin("x").where(lambda row: row.n)
    example = OperatorExample(
        lambda stream: stream.key_by("key").detect(pattern), SCHEMA, [row(1, "k", "a")], on="at"
    )
    with pytest.raises(UserFunctionError, match="a condition of the pattern returned"):
        replay(example, ReplayMode("whole"))


def test_an_error_shows_the_expression_as_written() -> None:
    pattern = rh.pattern.begin("x").where(rh.col("key").cast(int) > 1)
    example = OperatorExample(
        lambda stream: stream.key_by("key").detect(pattern), SCHEMA, [row(1, "k", "a")], on="at"
    )
    with pytest.raises(UserFunctionError, match="a condition of the pattern failed at") as raised:
        replay(example, ReplayMode("whole"))
    assert 'col("key")' in raised.value.what
    assert "alias" not in raised.value.what


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (rh.col("key") > 1, "does not fit the columns: cannot compare string with numeric type"),
        (rh.col("keys") == "x", "unknown column 'keys'"),
        (rh.col("n") + 1, "() needs a condition"),
        (rh.col("n").sum() > 1, "depends on other rows, so its result would differ per batch"),
    ],
    ids=str,
)
def test_an_unsuitable_condition_is_refused_at_its_step(asked: rh.col, says: str) -> None:
    env = rh.Environment()
    watermark = rh.Watermark.monotonic(on="at")
    stream = env.from_source(rh.collection(SCHEMA.empty_table()), watermark, name="rows").key_by("key")
    first = rh.pattern.begin("first").where(rh.col("a"))
    for pattern, step in (
        (first.next("wrong").where(asked), "wrong"),
        (first.not_next("wrong").where(asked).next("z"), "wrong"),
        (first.next(rh.pattern.begin("wrong").where(asked)), "wrong"),
        (first.next("wrong").one_or_more().consecutive().until(asked), "wrong"),
    ):
        with pytest.raises(ProgramError) as raised:
            stream.detect(pattern)
        assert raised.value.what.startswith(f"step {step!r}: ")
        assert says in raised.value.what
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
