"""Simulated worlds: others write at every step, the server fails, and the job restarts from a position
of its past. In the end, the changes make the table that the server has."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from rheos.connectors.chunk_buffer import BufferReader, ChunkBuffer
from rheos.connectors.mysql.binlog_position import BinlogPosition, LogPlace
from rheos.connectors.mysql.log_reading import LogReading
from rheos.connectors.mysql.snapshot_blocks import TableBlock
from rheos.core.connectors.contract import EndOfSplit, Pending
from rheos.core.errors import UnavailableError
from tests.connectors.mysql.simulated_log import SimulatedServer, table_rows


class _Context:
    def wake(self) -> None:
        pass

    def count(self, name: str, times: int) -> None:
        pass


def applied(table: dict[int, Any], rows: list[dict[str, Any]]) -> None:
    """Apply changes, each of which must fit the table."""
    for row in rows:
        op, id = row["op"], row["id"]
        if op in ("snapshot", "insert"):
            assert id not in table, row
            table[id] = row["v"]
        elif op == "update":
            assert table.pop(row["before"]["id"]) == row["before"]["v"], row
            assert id not in table, row
            table[id] = row["v"]
        elif op == "delete":
            assert table.pop(id) == row["v"], row
        else:
            assert op == "truncate"
            table.clear()


def run(seed: int) -> tuple[dict[int, Any], SimulatedServer, int]:
    """Run a world; return the table made of the changes, the server, and the number of restarts."""
    rng = Random(seed)
    server = SimulatedServer(rng, outages=rng.choice([0.0, 0.05]))
    for _ in range(rng.randrange(30)):
        server.write()
    times_s = [0.0]

    def clock() -> float:
        times_s[0] += rng.choice([0.0, 0.01, 0.2])
        return times_s[0]

    table: dict[int, Any] = {}
    at, restarts = BinlogPosition(in_snapshot=True), 0
    known_at = [LogPlace()]
    for number in range(8):
        server.quiet = number == 7
        if server.quiet:
            server.outages = 0.0
        else:
            server.write()
        end = server.place
        # The columns are known since any place, also one that is read again or not yet.
        known_at.append(end)
        rows = replace(table_rows(), known_at=rng.choice(known_at))
        buffer = ChunkBuffer(_Context())  # type: ignore[arg-type]
        reading = LogReading(rows, server, buffer, at, end, clock)
        while not reading.is_finished:
            try:
                reading.read_on()
            except UnavailableError:
                if rng.random() < 0.5 and not server.quiet:
                    break
        reader = BufferReader(buffer, at)
        # The job is killed after any of these rows.
        left = rng.randrange(60) if number < 7 else 1 << 30
        buffer.end(None)
        while left > 0:
            polled = reader.poll(min(left, rng.randrange(1, 5)))
            if isinstance(polled, EndOfSplit | Pending):
                break
            applied(table, polled.to_pylist())
            left -= max(polled.num_rows, 1)
            at = BinlogPosition.decode(reader.position())
        restarts += 1
    return table, server, restarts


@pytest.mark.thinned(2)
@pytest.mark.parametrize("first", range(0, 100, 25))
def test_changes_make_the_servers_table(first: int) -> None:
    for seed in range(first, first + 25):
        table, server, _ = run(seed)
        assert table == server.table, seed


def _uncovered(self: BinlogPosition, key: object) -> bool:
    return True


def _without_place(server: SimulatedServer, upto: Any) -> TableBlock:
    found = _BLOCK(server, upto)
    if not server.quiet:
        server.write()
    return TableBlock(found.rows, server.place, found.is_last)


_BLOCK = SimulatedServer.block


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (BinlogPosition, "covers", _uncovered),
        (SimulatedServer, "block", _without_place),
    ],
    ids=["all keys are covered", "the place is later than the block"],
)
def test_a_broken_rule_is_detected(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, broken: Any
) -> None:
    monkeypatch.setattr(owner, name, broken)

    def is_wrong(seed: int) -> bool:
        try:
            table, server, _ = run(seed)
        except (AssertionError, KeyError):
            return True
        return table != server.table

    assert any(map(is_wrong, range(50)))
