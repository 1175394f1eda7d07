"""A job that has stopped, next to input files that it has not read yet."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.world import World

PROGRAM = '''
from dataclasses import dataclass

import rheos as rh


@dataclass
class Order:
    user: str
    amount: int
    at: int


class Forbidden(rh.connectors.Sink):
    """Its target is not to be looked at, let alone written."""

    def never(self, *_):
        raise AssertionError("a sink of the job was touched")

    prepared = staged = committer = open = never


SINK = rh.print_sink()
env = rh.Environment(parallelism=2, parameters={"least": 0})
orders = env.from_source(
    rh.files.source("in/*.jsonl", schema=Order, discover="1s", on_error="skip"),
    rh.Watermark.monotonic(on="at", unit="ms"), name="orders", uid="orders",
)
keyed = orders.filter(rh.col("amount") >= env.parameters.int("least")).key_by("user")
windows = keyed.window(rh.Tumbling("10ms")).aggregate(amount=rh.agg.sum("amount")).uid("windows")
windows.sink_to(SINK, name="windows", uid="out")
orders.side_output("rejected").sink_to(SINK, name="bad", uid="bad")
env.execute("orders")
'''
FORBIDDEN = PROGRAM.replace("rh.print_sink()", "Forbidden()")


def write_input(name: str, *rows: tuple[str, int, int], bad: str = "") -> None:
    lines = [json.dumps({"user": u, "amount": a, "at": at}) for u, a, at in rows]
    Path(f"in/{name}.jsonl").write_text("\n".join([*lines, *([bad] if bad else [])]) + "\n")


def stopped(program: str) -> Path:
    """Run the job on the current input, and keep its checkpoints in `kept`."""
    plan = planned_program(Path(program), [], Overrides())
    config = JobConfig(
        job=JobId("orders"), checkpoint=CheckpointConfig(interval_ms=None), until_now=True, history=None
    )
    world = World(plan, config, 1, requests=Requests(leave=1.0))
    world.run()
    store = open_store("kept")
    for path, data in world.store.files.items():
        store.put(path, data)
    return Path("kept")


def digest(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file): (hashlib.blake2b(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
