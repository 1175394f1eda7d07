"""Choice of the small files that a compaction merges."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rheos as rh
from rheos.connectors.table_log import compaction_policy
from rheos.connectors.table_log.compaction_policy import Compaction, chosen_files
from rheos.connectors.table_log.maintenance_policy import policy_of
from rheos.connectors.table_log.table_files import LiveFile

HOUR = 3_600_000
NOW = 100 * HOUR


def files(*sizes: int, partition: str | None = "p", written_ms: int = NOW) -> list[LiveFile]:
    return [
        LiveFile(f"{partition} {at} {written_ms}", size, partition=partition, written_ms=written_ms)
        for at, size in enumerate(sizes)
    ]


OLD = NOW - 2 * HOUR


@pytest.mark.parametrize(
    ("live", "merged"),
    [
        ([], []),
        (files(10, 10), []),
        (files(10, 10, 11), ["p 0", "p 1", "p 2"]),
        (files(10, 10, 500, 40, 501, 502), ["p 2", "p 4", "p 5"]),  # Similar sizes only.
        (files(10, 10, 2000, 2000, 2000), []),  # Files of at least 1,000 bytes are not small.
        (files(10, 10) + files(10, partition="q"), []),
        (files(10, 10, 10, partition=None), []),  # They have an earlier partitioning.
        (files(10, 900, written_ms=OLD), ["p 0", "p 1"]),  # A quiet partition.
        (files(10, 2000, written_ms=OLD), []),
        (files(10, 900, written_ms=OLD) + files(5000), []),  # A new large file: not quiet.
        (files(900, 900, 900, 900), ["p 0", "p 1"]),  # 2,000 bytes at most.
        (
            files(10, 10, 10) + files(10, 10, 10, 10, partition="q"),
            ["q 0", "q 1", "q 2", "q 3", "p 0", "p 1", "p 2"],
        ),
        (files(0, 0, 0), ["p 0", "p 1", "p 2"]),
    ],
)
def test_files_are_chosen(live: list[LiveFile], merged: list[str]) -> None:
    policy = rh.compaction(below=1000, files=3, quiet="1h", at_most=2000)
    chosen = [file.path.rsplit(" ", 1)[0] for file in chosen_files(live, policy, NOW)]
    assert chosen == merged


def test_the_number_of_files_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_policy, "MOST_FILES", 5)
    policy = rh.compaction(below=1000, files=3, at_most=2000)
    live = files(1, 1, 1, 1) + files(1, 1, 1, partition="q")
    assert len(chosen_files(live, policy, NOW)) == 4


@pytest.mark.parametrize("count", [2, 4, 10])
def test_a_row_is_rewritten_a_few_times(count: int) -> None:
    """A table that gets a file of 10 bytes for each checkpoint keeps few files, at a small cost."""
    policy = rh.compaction(below=10_000, files=count, at_most=1_000_000, every=1)
    live, rewritten, most = [], 0, 0
    for checkpoint in range(3000):
        live.append(LiveFile(f"{checkpoint}", 10, written_ms=NOW + checkpoint))
        merged = chosen_files(live, policy, NOW + checkpoint)
        if merged:
            size = sum(file.size_bytes for file in merged)
            rewritten += size
            live = [file for file in live if file not in merged]
            live.append(LiveFile(f"c{checkpoint}", size, written_ms=NOW + checkpoint))
        most = max(most, len(live))
    tiers = math.ceil(math.log(10_000 / 10, count))
    assert rewritten <= 30_000 * tiers
    assert most <= count * (tiers + 1) + 3


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"files": 1}, "files=1 is not an integer of at least 2"),
        ({"every": True}, "every=True is not an integer of at least 1"),
        ({"below": "1GB"}, "below='1GB' is not a size of at most 128MB"),
        ({"below": 0}, "below=0 is not a size"),
        ({"at_most": "40MB"}, "at_most='40MB' is less than two files"),
        ({"quiet": "0s"}, "quiet='0s' is not a positive duration"),
        ({"below": "a lot"}, "'a lot' is not a size"),
    ],
)
def test_a_wrong_policy_is_refused(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(rh.ProgramError, match=what):
        rh.compaction(**settings)


def test_a_policy_may_be_its_settings() -> None:
    def read(given: Any) -> Compaction | None:
        return policy_of(Compaction, rh.compaction, "compact", given)

    assert read({"files": "3", "at-most": "64MB"}) == rh.compaction(files=3, at_most="64MB")
    with pytest.raises(rh.ProgramError, match="compact has no setting 'file'"):
        read({"file": "3"})
    with pytest.raises(rh.ProgramError, match="files='many' is not an integer"):
        read({"files": "many"})
    with pytest.raises(rh.ProgramError, match="compact=True is not a policy"):
        rh.delta.sink("t", compact=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "checkpoint", "due"), [(0, 9, False), (9, 10, True), (10, 19, False), (3, 47, True)]
)
def test_a_compaction_is_due_every_ten_checkpoints(before: int, checkpoint: int, due: bool) -> None:
    assert rh.compaction().is_due(before, checkpoint) == due
