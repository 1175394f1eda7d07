"""The generated inputs of the benchmarks have the stated properties."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa

from rheos.cli.benchmarks import grep, state_machine
from rheos.cli.benchmarks.generated_rows import Measurements
from rheos.connectors.generator import Block


def test_one_line_in_each_hundred_matches() -> None:
    pattern = re.compile(grep.PATTERN)
    matches = [bool(pattern.search(line)) for line in grep.lines(0).to_pylist()]
    whole = len(matches) // 100
    assert np.array(matches[: whole * 100]).reshape(whole, 100).sum(axis=1).tolist() == [1] * whole


def test_lines_are_about_a_hundred_bytes_and_all_different() -> None:
    lines = grep.lines(0).to_pylist()
    assert 95 < sum(map(len, lines)) / len(lines) < 110
    assert len(set(lines)) == len(lines) == grep.LINES


def test_a_block_of_lines_wraps_around_at_the_end_of_the_pool() -> None:
    pool = grep.lines(3)
    block = Block(split=0, start=grep.LINES * 2 - 10, rows=25, seed=3)
    assert grep.Lines()(block)["line"].equals(
        pa.concat_arrays([pool.slice(grep.LINES - 10), pool.slice(0, 15)])
    )


def test_a_block_of_lines_may_be_larger_than_the_pool() -> None:
    block = Block(split=0, start=0, rows=2 * grep.LINES + 7, seed=3)
    assert len(grep.Lines()(block)["line"]) == block.rows


def test_measurements_have_keys_below_the_limit() -> None:
    made = Measurements(keys=10)(Block(split=1, start=0, rows=1000, seed=5))
    assert set(made["k"].tolist()) == set(range(10))
    assert made["v"].dtype == np.float64


def events(
    users: int, splits: int, split: int, rows: int, block_rows: int = 64
) -> list[tuple[int, str]]:
    made = state_machine.Events(users, splits)
    found: list[tuple[int, str]] = []
    for start in range(0, rows, block_rows):
        block = made(Block(split, start, block_rows, seed=1))
        found += zip(block["user"].tolist(), block["kind"].to_pylist(), strict=True)
    return found


def test_each_user_of_a_split_has_one_event_per_iteration() -> None:
    made = [user for user, _ in events(users=11, splits=2, split=1, rows=640)]
    ours = [1, 3, 5, 7, 9]
    rounds = [made[at : at + len(ours)] for at in range(0, len(made), len(ours))]
    assert all(sorted(turn) == ours for turn in rounds)
    assert rounds[0] != rounds[1]


def test_users_follow_the_cycle_except_for_a_few_wrong_events() -> None:
    kinds = defaultdict(list)
    for user, kind in events(users=20, splits=2, split=0, rows=16_000):
        kinds[user].append(kind)
    tour = state_machine.TOUR
    right = Counter(
        kind == tour[turn % len(tour)] for turns in kinds.values() for turn, kind in enumerate(turns)
    )
    assert 0 < right[False] / right.total() < 2 / 200


def test_the_cycle_obeys_the_rules_and_returns_to_its_start() -> None:
    state = state_machine.INITIAL
    for kind in state_machine.TOUR:
        state = state_machine.RULES[state, kind]
    assert state == state_machine.INITIAL
