"""Cost of two subtasks in one process, compared with two slots and with one.

usage: python -m benchmarks.shared_process [ROWS ...] [--pause-ms N] [--rounds N]

The same rows in all (2, 16 and 128 for each interval of a buffer timeout, if none are given), a count
and a sum by key, in three arrangements:

    two slots      each polls half of the rows; they exchange frames over Unix sockets
    one process    the same subtasks exchange their batches in memory, without frames and sockets
    one slot       one subtask polls all rows, and sends them to itself

`turn.py` has the slots: their engines run in this process, one after the other. The arrangement in one
process is a lower bound, because its subtasks neither wait for sockets nor share them. Processor time
of all subtasks for an interval, in µs, and its ratio to two slots in the same round. Brackets contain
the interval of the median. `--pause-ms` sleeps before each interval: then caches are cold, as they are
at low rates.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa

from benchmarks.turn import PIECE, Slots
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell
from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import ChannelId
from rheos.core.task.config import TaskConfig

ROWS = (2, 16, 128)
TWO_SLOTS, ONE_PROCESS, ONE_SLOT = "two slots", "one process", "one slot"


class Exchange:
    """The channels of all subtasks of one process."""

    def __init__(self, subtasks: int) -> None:
        self.arrived: list[deque[tuple[ChannelId, Element]]] = [deque() for _ in range(subtasks)]
        self.credits: dict[ChannelId, int] = {}


class MemoryTransport:
    """One subtask's end of the exchange: a `Transport` of the engine, and the calls of `Slots`."""

    def __init__(self, exchange: Exchange, subtask: int) -> None:
        self._exchange = exchange
        self._arrived = exchange.arrived[subtask]

    def credits(self, channel: ChannelId) -> int:
        return self._exchange.credits.get(channel, TaskConfig.credits)

    def send(self, channel: ChannelId, batch: Batch) -> None:
        self._exchange.credits[channel] = self.credits(channel) - 1
        self._exchange.arrived[channel.receiver].append((channel, batch))

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        self._exchange.arrived[channel.receiver].append((channel, mark))

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        arrived = self._arrived
        return [arrived.popleft() for _ in range(min(max_elements, len(arrived)))]

    def release(self, channel: ChannelId) -> None:
        self._exchange.credits[channel] += 1

    def strangers(self) -> int:
        return 0

    def wait(self, timeout_us: int) -> None:
        """Return at once: the other subtasks of the process run in the same loop."""

    def close(self) -> None:
        """Do nothing: there are no sockets."""


class Together(Slots):
    """Subtasks that share a process."""

    def connected(self, slots: int, folder: str) -> Sequence[MemoryTransport]:
        exchange = Exchange(slots)
        return [MemoryTransport(exchange, subtask) for subtask in range(slots)]


def measured(rows: int, pause_ms: float, rounds: int) -> dict[str, list[float]]:
    """Return the processor time of an interval in µs, for each round of each arrangement."""
    spent: dict[str, list[float]] = {}
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="rheos-shared-"))
        made = {
            TWO_SLOTS: Slots(rows // 2, 2, folder),
            ONE_PROCESS: Together(rows // 2, 2, folder),
            ONE_SLOT: Together(rows, 1, folder),
        }
        for slots in made.values():
            opened.callback(slots.close)
            for _ in range(2 * PIECE):
                slots.turn()
        for _ in range(rounds):
            for name, slots in made.items():
                spent_ns = 0
                for _ in range(PIECE):
                    time.sleep(pause_ms / 1000)
                    began_ns = time.process_time_ns()
                    slots.turn()
                    spent_ns += time.process_time_ns() - began_ns
                spent.setdefault(name, []).append(spent_ns / 1000 / PIECE)
    return spent


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", type=int, metavar="ROWS")
    parser.add_argument("--pause-ms", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=4 * MIN_ROUNDS)
    given = parser.parse_args(argv)
    pa.set_cpu_count(1)
    print("| rows of an interval | arrangement | µs of an interval | ratio to two slots |")
    print("|---:|---|---:|---:|")
    for rows in given.rows or ROWS:
        spent = measured(rows, given.pause_ms, given.rounds)
        for name, times in spent.items():
            ratio = ratio_cell(list(zip(times, spent[TWO_SLOTS], strict=True)))
            print(f"| {rows} | {name} | {cell(times, '{:.0f}'.format)} | {ratio} |")


if __name__ == "__main__":
    main(sys.argv[1:])
