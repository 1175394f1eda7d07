"""The benchmark `state-machine` in Bytewax, with a Python function for each event.

It runs in a virtual environment with `bytewax` and nothing of Rheos, in as many processes as the
parallelism. Each process stamps its events when it makes them, and counts them when they are validated.
The last line printed is a JSON object.
"""

import json
import random
import socket
import subprocess
import sys
import time
from datetime import timedelta

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main
from python_program import INITIAL, RULES, TOUR, options, print_result

WRONG_IN = 200
BATCH_ROWS = 1_000
LATENCY_OF = 16
"""Number of events of which one counts for the latency."""


class Window:
    """Counts the events of a time between two moments since the epoch, in ns."""

    def __init__(self, begins_ns, ends_ns):
        self.begins_ns, self.ends_ns = begins_ns, ends_ns
        self.is_open = False
        self.records = 0
        self.latencies_ns = []

    def count(self, since_ns):
        self.records += 1
        if self.records % LATENCY_OF == 0:
            self.latencies_ns.append(time.time_ns() - since_ns)


class Events(StatelessSourcePartition):
    def __init__(self, window, users, subtask, subtasks):
        rng = random.Random(subtask)
        ours = range(subtask, users, subtasks)
        self._window = window
        self._pool = [
            (str(user), rng.choice(TOUR) if rng.randrange(WRONG_IN) == 0 else step)
            for step in TOUR
            for user in ours
        ]
        self._at = 0

    def next_batch(self):
        now = time.time_ns()
        if now >= self._window.ends_ns:
            self._window.is_open = False
            raise StopIteration
        self._window.is_open = now >= self._window.begins_ns
        if self._at >= len(self._pool):
            self._at = 0
        self._at, begin = self._at + BATCH_ROWS, self._at
        return [(user, (kind, now)) for user, kind in self._pool[begin : self._at]]


class Source(DynamicSource):
    def __init__(self, *given):
        self._given = given

    def build(self, step_id, worker_index, worker_count):
        window, users = self._given
        return Events(window, users, worker_index, worker_count)


class Drain(DynamicSink, StatelessSinkPartition):
    def build(self, step_id, worker_index, worker_count):
        return self

    def write_batch(self, items):
        pass


def flow_of(window, users):
    def validate(state, event):
        if window.is_open:
            window.count(event[1])
        following = RULES.get((state or INITIAL, event[0]))
        return following, ([event] if following is None else [])

    flow = Dataflow("state_machine")
    events = op.input("events", flow, Source(window, users))
    op.output("drain", op.stateful_flat_map("validate", events, validate), Drain())
    return flow


def work(given):
    window = Window(given.begins_ns, given.ends_ns)
    flow = flow_of(window, given.keys)
    cluster_main(flow, given.addresses, given.process, epoch_interval=timedelta(seconds=10))
    print(json.dumps({"records": window.records, "latencies_ns": window.latencies_ns}))


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def main():
    parser = options()
    parser.add_argument("--process", type=int, help="number of this process; started by the first one")
    parser.add_argument("--begins-ns", type=int)
    parser.add_argument("--ends-ns", type=int)
    parser.add_argument("--addresses", nargs="*")
    given = parser.parse_args()
    if given.process is not None:
        work(given)
        return
    began = time.time_ns() + int(given.warmup * 1e9)
    ended = began + int(given.seconds * 1e9)
    shared = ["--keys", str(given.keys), "--begins-ns", str(began), "--ends-ns", str(ended)]
    shared += ["--addresses", *free_addresses(given.parallelism)]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--process", str(number), *shared], stdout=subprocess.PIPE
        )
        for number in range(given.parallelism)
    ]
    results = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    latencies = sorted(each for result in results for each in result["latencies_ns"])
    p50, p99 = (
        latencies[int(share * (len(latencies) - 1))] / 1e6 if latencies else None
        for share in (0.5, 0.99)
    )
    print_result(began, ended, sum(result["records"] for result in results), p50, p99)


if __name__ == "__main__":
    main()
