"""What one element costs on its way from a keyed edge's sender to its receiver, part by part.

usage: element.py [ROWS ...]

An element is a batch with so many rows (1, 64 and 1,024 where none are given), of a key, a value and
an event time; the receiver is a running count and sum, one of two. All parts are in this process, one
after the other, over real sockets: so the sum is the processor time of both sides together. The median
of thousands, in microseconds.

The last line is a floor: the calls into Arrow, NumPy and the kernel that no way of sending a batch and
counting its rows can be without, one after the other, with no protocol, no state and no key around.
"""

from __future__ import annotations

import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import cast

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.running_kernel import SCHEMA, operator
from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol import wire
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId
from rheos.core.protocol.ports import Transport
from rheos.core.task.config import TaskConfig
from rheos.core.task.inputs import InputGate
from rheos.core.task.outputs import OutputEdge
from rheos.core.task.partition import Partitioner
from rheos.runtimes.continuous.local_transport import LocalTransport
from rheos.runtimes.host.io import SystemClock

ELEMENTS = 4000
KEYS = 10_000
EDGE = Edge(0, Exchange.HASH, ChainId(0), ChainId(1), 0, ("k",))
CHANNEL = ChannelId(0, 0, 1)


class _Nowhere:
    """A transport on which nothing travels: for the buffers alone."""

    def credits(self, channel: ChannelId) -> int:
        return TaskConfig.credits

    def send(self, channel: ChannelId, batch: Batch) -> None:
        pass


@contextmanager
def connected() -> Iterator[tuple[LocalTransport, LocalTransport]]:
    """Both ends of a channel over Unix sockets, as between two slots of one machine."""
    with tempfile.TemporaryDirectory(prefix="rheos-element-") as folder:
        ends = [
            LocalTransport(
                attempt=Attempt(1),
                subtask=subtask,
                token=b"0123456789abcdef",
                schemas={0: SCHEMA},
                initial_credits=TaskConfig.credits,
                parallelism=2,
                path=f"{folder}/{subtask}",
            )
            for subtask in range(2)
        ]
        for end in ends:
            end.connect([each.address for each in ends])
        try:
            yield ends[0], ends[1]
        finally:
            for end in ends:
                end.close()


def element(rows: int, rng: np.random.Generator) -> Batch:
    now = np.arange(rows, dtype=np.int64)
    return pa.record_batch([rng.integers(0, KEYS, rows), rng.random(rows), now], schema=SCHEMA)


def parts(rows: int, sender: LocalTransport, receiver: LocalTransport) -> dict[str, float]:
    """Microseconds of each part."""
    rng = np.random.default_rng(1)
    # A sender cuts for both of its targets at once: half of that is one element's.
    whole = [element(2 * rows, rng) for _ in range(64)]
    single = [element(rows, rng) for _ in range(64)]
    cutter = Partitioner(EDGE.keys, 2, 128)
    config, clock = TaskConfig(buffer_timeout_us=0), SystemClock()
    buffers = OutputEdge(EDGE, 0, 2, 2, 2, 128, config, cast("Transport", _Nowhere()), clock)
    gate = InputGate([(CHANNEL, 0)], clock.monotonic_us)
    process = operator()
    decoder = wire.BatchDecoder(SCHEMA)
    spent: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[..., object], *args: object) -> object:
        began = time.perf_counter_ns()
        made = work(*args)
        spent.setdefault(name, []).append((time.perf_counter_ns() - began) / 1000)
        return made

    def buffered(batch: Batch) -> None:
        buffers._append(buffers._lanes[1], batch)
        buffers.pump()

    def gated(batch: Batch) -> None:
        gate.offer(CHANNEL, batch)
        taken = gate.take()
        assert taken is not None
        gate.merged(taken[0], batch)

    def given() -> None:
        receiver.release(CHANNEL)
        receiver._return_credits()

    # The first brings the greeting with it.
    sender.send(CHANNEL, single[0])
    while not receiver.receive(64):
        receiver._sleep(100_000)
    given()
    while sender.credits(CHANNEL) < TaskConfig.credits:
        sender._sleep(100_000)
        sender.receive(64)
    for number in range(ELEMENTS):
        batch = single[number % 64]
        timed("cut, for two targets", cutter.split, whole[number % 64])
        timed("buffer", buffered, batch)
        payload = timed("encode", wire.encode_batch, batch)
        timed("encode and send", sender.send, CHANNEL, batch)
        receiver._sleep(100_000)
        timed("receive and decode", receiver.receive, 64)
        timed("decode", decoder.decode, payload)
        timed("gate", gated, batch)
        timed("operator", process, batch)
        timed("credit, given", given)
        sender._sleep(100_000)
        timed("credit, taken", sender.receive, 64)
    assert sender.credits(CHANNEL) == TaskConfig.credits
    return {name: median(times) for name, times in spent.items()}


def bare_us(rows: int) -> float:
    """Microseconds of the bare calls for one element, by the median."""
    rng = np.random.default_rng(1)
    batch, head, credit = element(rows, rng), bytes(64), bytes(32)
    order = pa.array(rng.permutation(rows))
    sums = np.zeros(KEYS)
    here, there = socket.socketpair()
    arrived, returned = select.epoll(), select.epoll()
    arrived.register(there, select.EPOLLIN)
    returned.register(here, select.EPOLLIN)
    spent = []
    for _ in range(ELEMENTS):
        began = time.perf_counter_ns()
        here.sendmsg((head, batch.take(order).serialize()))
        arrived.poll(1)
        data = there.recv(1 << 16)
        came = pa.ipc.read_record_batch(pa.py_buffer(memoryview(data)[len(head) :]), SCHEMA)
        came.validate()
        keys, values = came.column(0).to_numpy(), came.column(1).to_numpy()
        np.add.at(sums, keys, values)
        pa.RecordBatch.from_arrays(
            [came.column(0), pa.array(sums[keys]), came.column(2)], schema=SCHEMA
        )
        there.send(credit)
        returned.poll(1)
        here.recv(1 << 16)
        spent.append((time.perf_counter_ns() - began) / 1000)
    for each in (arrived, returned, here, there):
        each.close()
    return median(spent)


def main(sizes: list[int]) -> None:
    with connected() as (sender, receiver):
        measured = [parts(rows, sender, receiver) for rows in sizes]
    table = Table(title="microseconds of one element")
    table.add_column("part")
    for rows in sizes:
        table.add_column(f"{rows:,} rows", justify="right")
    for name in measured[0]:
        table.add_row(name, *(f"{measurements[name]:.1f}" for measurements in measured))
    table.add_row("all of one element", *(f"{_sum(measurements):.1f}" for measurements in measured))
    table.add_row("floor: bare calls", *(f"{bare_us(rows):.1f}" for rows in sizes))
    Console().print(table)


def _sum(measurements: dict[str, float]) -> float:
    """Encoding and decoding are in other parts, too; and half of a cut is for each target."""
    alone = measurements["encode"] + measurements["decode"] + measurements["cut, for two targets"] / 2
    return sum(measurements.values()) - alone


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 64, 1024])
