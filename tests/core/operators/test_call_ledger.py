"""The ledger of waiting calls, alone in random orders: arrivals, snapshots, completions, answers, and
restores at each of them (docs/protocols/side-effects.md)."""

from __future__ import annotations

from random import Random

import pytest

from rheos.core.operators.call_ledger import CallLedger
from rheos.core.protocol.ids import CheckpointId


class LedgerWorld:
    """One subtask with a log of checkpoints. A restart continues from the newest complete checkpoint,
    and rows after it arrive again."""

    def __init__(self, rng: Random, rows: int) -> None:
        self.rng = rng
        self.input = [(f"k{rng.randrange(rows)}", number) for number in range(rows)]
        self.read = 0
        self.checkpoint = 0
        self.pending: dict[int, tuple[int, list[tuple[str, int]], set[str], list[int]]] = {}
        """Snapshots by checkpoint: the position, the rows that wait, answered keys, emitted rows."""
        self.log: tuple[int, list[tuple[str, int]], set[str], list[int]] = (0, [], set(), [])
        self.requests: list[tuple[str, bool]] = []
        """Calls that were made, and whether they were in doubt."""
        self.stored_keys: set[str] = set()
        """Keys whose rows were in some complete checkpoint."""
        self.restart()

    def restart(self) -> None:
        self.ledger: CallLedger[tuple[str, int]] = CallLedger()
        self.read, waiting, answered, emitted = self.log
        self.answered, self.emitted = set(answered), list(emitted)
        self.pending.clear()
        self.under_way: list[str] = []
        for row in waiting:
            self.ledger.restore(row[0], row)

    def step(self) -> None:
        match self.rng.randrange(12):
            case 0 | 1 | 2 | 3:
                self.arrive()
            case 4 | 5:
                self.snapshot()
            case 6 | 7:
                self.complete()
            case 8:
                self.release()
            case 9 | 10:
                self.answer()
            case _:
                if self.rng.random() < 0.3:
                    self.restart()

    def arrive(self) -> None:
        if self.read == len(self.input):
            return
        key, _ = row = self.input[self.read]
        self.read += 1
        if key in self.answered and not self.ledger.waits(key):
            self.emitted.append(row[1])
        else:
            self.ledger.add(key, row)

    def snapshot(self) -> None:
        self.checkpoint += 1
        rows = self.ledger.taken(CheckpointId(self.checkpoint))
        assert len(rows) == self.ledger.rows
        self.pending[self.checkpoint] = (self.read, rows, set(self.answered), list(self.emitted))

    def complete(self) -> None:
        """Complete one checkpoint that is in progress. Earlier ones are abandoned."""
        if not self.pending:
            return
        done = self.rng.choice(list(self.pending))
        self.log = self.pending[done]
        self.stored_keys |= {key for key, _ in self.log[1]}
        self.pending = {n: taken for n, taken in self.pending.items() if n > done}
        if self.rng.random() < 0.9:
            self.ledger.completed(CheckpointId(done))

    def release(self) -> None:
        for call in self.ledger.release():
            assert call.key in self.stored_keys, "SE1"
            if not call.in_doubt:
                assert call.key not in {key for key, _ in self.requests}, "SE2"
            self.requests.append((call.key, call.in_doubt))
            self.under_way.append(call.key)

    def answer(self) -> None:
        if self.under_way:
            key = self.under_way.pop(self.rng.randrange(len(self.under_way)))
            self.answered.add(key)
            self.emitted += [number for _, number in self.ledger.answered(key).rows]

    def finish(self) -> None:
        while self.read < len(self.input) or self.ledger.rows:
            self.arrive()
            self.snapshot()
            self.complete()
            self.release()
            self.answer()


@pytest.mark.parametrize("seed", range(200))
def test_each_row_is_answered_and_repeated_calls_are_in_doubt(seed: int) -> None:
    rng = Random(seed)
    world = LedgerWorld(rng, rows=rng.randrange(1, 30))
    for _ in range(rng.randrange(300)):
        world.step()
    world.finish()
    assert sorted(world.emitted) == list(range(len(world.input)))
    assert {key for key, _ in world.requests} == {key for key, _ in world.input}


def test_rows_of_one_key_wait_for_one_call() -> None:
    ledger: CallLedger[int] = CallLedger()
    ledger.add("a", 1)
    assert ledger.taken(CheckpointId(1)) == [1]
    ledger.add("a", 2)
    assert not ledger.is_due
    ledger.completed(CheckpointId(1))
    [call] = ledger.release()
    assert (call.rows, call.in_doubt) == ([1, 2], False)
    ledger.add("a", 3)
    assert ledger.release() == []
    assert ledger.answered("a").rows == [1, 2, 3]
    assert ledger.rows == 0


def test_restored_calls_wait_for_a_checkpoint_of_their_attempt() -> None:
    ledger: CallLedger[int] = CallLedger()
    ledger.restore("a", 1)
    assert not ledger.is_due
    ledger.add("b", 2)
    ledger.taken(CheckpointId(7))
    ledger.completed(CheckpointId(7))
    assert [(call.key, call.in_doubt) for call in ledger.release()] == [("a", True), ("b", False)]
