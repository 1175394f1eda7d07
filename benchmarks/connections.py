"""The cost of a job's connections between machines by its number of slots, measured and extrapolated.

usage: python -m benchmarks.connections [--slots P ...] [--rounds N] [--at P ...] [--by-host K]

All slots are in this process, each with its own ZeroMQ context, and are connected over TCP with CURVE,
as slots on several machines are. Three designs are compared, and their rounds alternate:

- `a socket by peer`: each slot has a sending socket for each peer. Rheos worked like this before.
- `one socket`: each slot has one sending socket, with a connection to each peer (`ZmqTransport`).
- `an exchange by host`: a process on each host forwards the frames of its slots. It does not exist. Its
  connections follow from the number of hosts, with K slots on each. Its processor time per element is
  a lower bound: that of one socket, and of two proxies of ZeroMQ, in C, without routes or encryption.

Columns, all for one slot: its connections, its file descriptors, the resident memory after each slot
has sent one batch to each peer, the processor time until then, the processor time of an element on both
sides, with its credit, and that of a turn in which nothing has arrived. A batch has 64 rows. Values for
more slots than were measured are linear in the number of peers, from the narrowest and the widest job.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import zmq

from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell
from rheos.cli.benchmarks.recorder import memory_mib
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, ChannelId
from rheos.core.task.config import TaskConfig
from rheos.runtimes.continuous.security import Curve, Security
from rheos.runtimes.continuous.zmq_transport import ZmqTransport, _identity

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("__ts", pa.int64())])
ROWS = 64
TOKEN = b"0123456789abcdef"
MEASURED = (4, 16, 64)
MODELLED = (500, 2_000)
SLOTS_BY_HOST = 16
IDLE_TURNS = 200
PIECES = 5
PROXIED = 2_000
"""Number of frames that pass through the proxies in a measurement."""
_FRAME_BYTES = (1_000, 16_000, 256_000)


class SocketByPeer(ZmqTransport):
    """The transport with a sending socket for each peer."""

    def connect(self, addresses: Sequence[str]) -> None:
        self._senders: dict[int, zmq.Socket[bytes]] = {}
        for subtask, address in enumerate(addresses):
            if subtask == self._subtask:
                continue
            socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
            socket.set_hwm(0)
            socket.setsockopt(zmq.IDENTITY, _identity(self._token, self._attempt, self._subtask))
            KEYS.connecting(socket)
            socket.connect(address)
            self._listen_to(socket)
            self._senders[subtask] = socket
            self._identities[subtask] = _identity(self._token, self._attempt, subtask)

    def _put(self, receiver: int, header: bytes, payload: pa.Buffer | None) -> None:
        sender = self._senders[receiver]
        assert payload is not None
        sender.send(header, zmq.SNDMORE | zmq.NOBLOCK)
        sender.send(payload, zmq.NOBLOCK, copy=False)

    def _take_credits(self) -> Iterator[tuple[int, bytes]]:
        for receiver, socket in self._senders.items():
            while True:
                try:
                    yield receiver, socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break

    def close(self) -> None:
        for socket in self._senders.values():
            socket.close(linger=0)
        super().close()


KEYS: Security = Curve.make()


class Design(Enum):
    BY_PEER = "a socket by peer"
    SHARED = "one socket"

    @property
    def transport(self) -> type[ZmqTransport]:
        return SocketByPeer if self is Design.BY_PEER else ZmqTransport


@dataclass(frozen=True)
class Cost:
    """Cost of the exchange of one slot, with the unit of each field in its name."""

    connections: float
    descriptors: float
    memory_mib: float
    connecting_ms: float
    element_us: float
    idle_turn_us: float


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def connected_sockets() -> int:
    """Return the number of established TCP connections, counted at both ends."""
    return sum(line.split()[3] == "01" for line in Path("/proc/self/net/tcp").read_text().splitlines())


@contextmanager
def opened(design: Design, slots: int) -> Iterator[list[ZmqTransport]]:
    """Yield the transports of all slots, listening, but not connected."""
    contexts: list[zmq.Context[zmq.Socket[bytes]]] = [zmq.Context(1) for _ in range(slots)]
    ends = [
        design.transport(
            context,
            attempt=Attempt(1),
            subtask=subtask,
            token=TOKEN,
            schemas={0: SCHEMA},
            initial_credits=TaskConfig.credits,
            parallelism=slots,
            where="tcp://127.0.0.1:*",
            security=KEYS,
        )
        for subtask, context in enumerate(contexts)
    ]
    try:
        yield ends
    finally:
        for end in ends:
            end.close()
        for context in contexts:
            context.destroy(linger=0)


def exchange(ends: Sequence[ZmqTransport], batch: Batch) -> None:
    """Send a batch from each slot to each other one, and wait until all credits are back."""
    peers = len(ends) - 1
    channels = [
        [ChannelId(0, sender, receiver) for receiver in range(peers + 1) if receiver != sender]
        for sender in range(peers + 1)
    ]
    for end, sent in zip(ends, channels, strict=True):
        for channel in sent:
            end.send(channel, batch)
    missing = len(ends) * peers
    while missing or any(
        end.credits(channel) < TaskConfig.credits
        for end, sent in zip(ends, channels, strict=True)
        for channel in sent
    ):
        for end in ends:
            for channel, _ in end.receive(4096):
                end.release(channel)
                missing -= 1
            end.wait(0)
        if not missing:
            time.sleep(0.0005)


def measure(design: Design, slots: int, batch: Batch) -> Cost:
    """Return the cost of one slot. Everything is divided by the number of slots."""
    before = descriptors(), memory_mib(), connected_sockets()
    with opened(design, slots) as ends:
        began_s = time.process_time()
        for end in ends:
            end.connect([other.address for other in ends])
        exchange(ends, batch)
        connecting_s = time.process_time() - began_s
        # Both ends of a connection are in this process.
        made = descriptors() - before[0], memory_mib() - before[1], connected_sockets() - before[2]
        began_s = time.process_time()
        for _ in range(PIECES):
            exchange(ends, batch)
        element_s = (time.process_time() - began_s) / PIECES / slots / (slots - 1)
        began_s = time.process_time()
        for _ in range(IDLE_TURNS):
            for end in ends:
                end.receive(64)
                end.wait(0)
        idle_s = (time.process_time() - began_s) / IDLE_TURNS / slots
    return Cost(
        connections=made[2] / slots,
        descriptors=made[0] / slots,
        memory_mib=made[1] / slots,
        connecting_ms=connecting_s * 1000 / slots,
        element_us=element_s * 1e6,
        idle_turn_us=idle_s * 1e6,
    )


def measured_apart(design: Design, slots: int, batch: Batch) -> Cost:
    """Measure in a new process, so that no memory of an earlier job is used again."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (design, slots, batch))


def proxied_us(proxies: int, payload: bytes) -> float:
    """Return the processor time of a frame that passes through a number of proxies between two ends."""
    contexts: list[zmq.Context[zmq.Socket[bytes]]] = [zmq.Context(1) for _ in range(proxies + 2)]
    target = contexts[-1].socket(zmq.PULL)
    target.set_hwm(1000)
    address = f"tcp://127.0.0.1:{target.bind_to_random_port('tcp://127.0.0.1')}"
    threads: list[threading.Thread] = []
    for context in contexts[1:-1]:
        inward, outward = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        outward.connect(address)
        address = f"tcp://127.0.0.1:{inward.bind_to_random_port('tcp://127.0.0.1')}"
        threads.append(threading.Thread(target=_proxy, args=(inward, outward), daemon=True))
        threads[-1].start()
    source = contexts[0].socket(zmq.PUSH)
    source.connect(address)
    source.send(payload)
    target.recv()
    began_s = time.process_time()
    for _ in range(PROXIED // 100):
        for _ in range(100):
            source.send(payload, copy=False)
        for _ in range(100):
            target.recv(copy=False)
    spent_s = time.process_time() - began_s
    source.close(linger=0)
    target.close(linger=0)
    for context in contexts:
        context.term()
    for thread in threads:
        thread.join()
    return spent_s * 1e6 / PROXIED


def _proxy(inward: zmq.Socket[bytes], outward: zmq.Socket[bytes]) -> None:
    try:
        zmq.proxy(inward, outward)
    except zmq.ContextTerminated:
        inward.close(linger=0)
        outward.close(linger=0)


def linear(costs: Sequence[Cost], slots: Sequence[int], to: int) -> Cost:
    """Return the cost with `to` slots, on the line through the narrowest and the widest job.

    The cost of an element is that of the widest job.
    """
    narrow, wide = astuple(costs[0]), astuple(costs[-1])
    further = (to - slots[-1]) / (slots[-1] - slots[0])
    of = Cost(*(b + (b - a) * further for a, b in zip(narrow, wide, strict=True)))
    return replace(of, element_us=costs[-1].element_us)


def exchange_by_host(costs: Sequence[Cost], slots: Sequence[int], to: int, by_host: int) -> Cost:
    """Return the cost of a slot whose host has one exchange, without its two hops.

    A slot is connected to the exchange, and has its share of the connections of the exchange.
    """
    hosts = -(-to // by_host)
    return linear(costs, slots, round(2 + (hosts - 1) / by_host))


def median_cost(rounds: Sequence[Cost]) -> Cost:
    return Cost(*map(median, zip(*map(astuple, rounds), strict=True)))


def row(design: str, slots: int, rounds: Sequence[Cost]) -> str:
    """Return a line of the table: what was measured in each round, or one modelled cost."""
    cells = [
        " | ".join(f"{median(getattr(each, name) for each in rounds):,.0f}" for name in _COUNTS),
        " | ".join(
            cell([getattr(each, name) for each in rounds], form)
            if len(rounds) > 1
            else form(getattr(rounds[0], name))
            for name, form in _FORMS.items()
        ),
    ]
    return f"| {slots:,} | {design} | {' | '.join(cells)} |"


_COUNTS = ("connections", "descriptors")
_FORMS: dict[str, Callable[[float], str]] = {
    "memory_mib": "{:,.1f}".format,
    "connecting_ms": "{:,.0f}".format,
    "element_us": "{:,.0f}".format,
    "idle_turn_us": "{:,.0f}".format,
}
_HEADER = """\
| slots | design | connections | descriptors | memory, MiB | connecting, ms | an element, µs \
| an idle turn, µs |
|---:|---|---:|---:|---:|---:|---:|---:|"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", nargs="+", type=int, default=MEASURED, metavar="P")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--at", nargs="+", type=int, default=MODELLED, metavar="P")
    parser.add_argument("--by-host", type=int, default=SLOTS_BY_HOST, metavar="K")
    given = parser.parse_args()
    if len(given.slots) < 2 or min(given.slots) < 2:
        parser.error("at least two numbers of slots are needed, each of two or more")
    slots = sorted(given.slots)
    pa.set_cpu_count(1)
    rng = np.random.default_rng(1)
    times = np.arange(ROWS, dtype=np.int64)
    batch = pa.record_batch([rng.integers(0, 10_000, ROWS), rng.random(ROWS), times], schema=SCHEMA)
    found: dict[tuple[Design, int], list[Cost]] = {(d, n): [] for n in slots for d in Design}
    hops: dict[int, list[float]] = {size: [] for size in _FRAME_BYTES}
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
        for (design, count), rounds in list(found.items())[:: 1 if number % 2 == 0 else -1]:
            rounds.append(measured_apart(design, count, batch))
        for size, spent_us in hops.items():
            spent_us.append(proxied_us(2, bytes(size)) - proxied_us(0, bytes(size)))
    print(_HEADER)
    for (design, count), rounds in found.items():
        print(row(design.value, count, rounds))
    medians = {design: [median_cost(found[design, count]) for count in slots] for design in Design}
    for to in given.at:
        for design, costs in medians.items():
            print(row(f"{design.value}, model", to, [linear(costs, slots, to)]))
        shared = exchange_by_host(medians[Design.SHARED], slots, to, given.by_host)
        print(row("an exchange by host, model, without its hops", to, [shared]))
    print("\n| frame, bytes | two hops, µs |\n|---:|---:|")
    for size, spent_us in hops.items():
        print(f"| {size:,} | {cell(spent_us, '{:,.0f}'.format)} |")


if __name__ == "__main__":
    main()
