"""The loop that `interpreters.py` runs in each Python: the function of the state machine over records.

It needs only the standard library, and runs in Python 3.9 and later. It reads the rules as JSON from
its standard input, and prints the processor time and the wall time per record in ns.

usage: python benchmarks/interpreter_loop.py RECORDS THREADS
"""

import json
import random
import sys
import threading
import time
from typing import Any

USERS = 10_000
WARM_UP = 200_000
"""Number of records for which a JIT may compile, before the time counts."""


class Event:
    __slots__ = ("kind", "t", "user")

    def __init__(self, user: int, kind: str, t: int) -> None:
        self.user = user
        self.kind = kind
        self.t = t


class Machine:
    """One thread's users. Its method is the function of the benchmark, with a dict for its state."""

    def __init__(self, rules: dict[tuple[str, str], str], initial: str) -> None:
        self.rules = rules
        self.initial = initial
        self.states: dict[int, str] = {}

    def process(self, event: Event, alerts: list[tuple[int, str, str, int]]) -> None:
        state = self.states.get(event.user, self.initial)
        following = self.rules.get((state, event.kind))
        if following is None:
            alerts.append((event.user, state, event.kind, event.t))
            self.states.pop(event.user, None)
        else:
            self.states[event.user] = following

    def run(self, users: list[int], kinds: list[str], times: list[int]) -> int:
        alerts: list[tuple[int, str, str, int]] = []
        for event in map(Event, users, kinds, times):
            self.process(event, alerts)
        return len(alerts)


def columns(records: int, kinds: list[str]) -> tuple[list[int], list[str], list[int]]:
    draw = random.Random(5)
    return (
        [draw.randrange(USERS) for _ in range(records)],
        [draw.choice(kinds) for _ in range(records)],
        list(range(records)),
    )


def main() -> None:
    records, threads = int(sys.argv[1]), int(sys.argv[2])
    given: Any = json.load(sys.stdin)
    rules = {(state, kind): following for state, kind, following in given["rules"]}
    machines = [Machine(rules, given["initial"]) for _ in range(threads)]
    kinds = sorted({kind for _, kind in rules})
    warm, measured = columns(WARM_UP, kinds), columns(records, kinds)
    for machine in machines:
        machine.run(*warm)
    running = [threading.Thread(target=machine.run, args=measured) for machine in machines]
    began, began_cpu = time.perf_counter_ns(), time.process_time_ns()
    for each in running:
        each.start()
    for each in running:
        each.join()
    wall, cpu = time.perf_counter_ns() - began, time.process_time_ns() - began_cpu
    print(json.dumps({"cpu_ns": cpu / (records * threads), "wall_ns": wall / (records * threads)}))


if __name__ == "__main__":
    main()
