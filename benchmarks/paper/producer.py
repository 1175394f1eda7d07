"""Sends events to a topic, as a process of its own: until it is asked to end (SIGTERM), or so many.

usage: python -m benchmarks.paper.producer KIND BROKERS TOPIC RECORD --partitions N --rate N
       [--count N] [--at-once] [--settings JSON]

RECORD becomes a JSON object: `sent`, how many events the broker has confirmed, `began_ms`, and
`per_100ms`, how many were sent in each tenth of a second since. It is written when all is confirmed,
and not at all where an event was refused: then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.paper import ads, shop

Payloads = Callable[..., tuple[list[str], list[int]]]
"""Called with the number of the first event, how many there are, and how many partitions; when event 0
happens and at what rate (`began_ms`, `rate_per_s`), and the kind's settings. Gives the values, and the
partition of each."""

KINDS: dict[str, Payloads] = {"ads": ads.payloads, "shop": shop.payloads}

_BLOCK = 10_000
_PAUSE_S = 0.01


def main() -> int:
    cli = argparse.ArgumentParser(description="Sends events to a topic, and counts them.")
    cli.add_argument("kind", choices=KINDS)
    cli.add_argument("brokers")
    cli.add_argument("topic")
    cli.add_argument("record", type=Path)
    cli.add_argument("--partitions", type=int, required=True)
    cli.add_argument("--rate", type=float, required=True, help="at which events happen, a second")
    cli.add_argument("--at-once", action="store_true", help="send them as fast as they go")
    cli.add_argument("--count", type=int, help="how many; without it until SIGTERM")
    cli.add_argument("--settings", type=json.loads, default={}, help="of the kind, as JSON")
    said = cli.parse_args()
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
    refused: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": said.brokers,
            "enable.idempotence": True,  # In order and once, whatever the broker goes through.
            "message.timeout.ms": 0,
            "linger.ms": 20 if said.at_once else 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: refused.append(str(error)) if error else None,
        }
    )
    payloads, sent, per_100ms = KINDS[said.kind], 0, Counter[int]()
    print("begins", flush=True)
    began_ms, began = int(time.time() * 1000), time.monotonic()
    settings = {"began_ms": began_ms, "rate_per_s": said.rate, **said.settings}
    while not asked_to_end and not refused and sent != said.count:
        due = _BLOCK if said.at_once else int((time.monotonic() - began) * said.rate) - sent
        due = min(due, _BLOCK, due if said.count is None else said.count - sent)
        if due == 0:
            producer.poll(0)
            time.sleep(_PAUSE_S)
            continue
        values, partitions = payloads(sent, due, said.partitions, **settings)
        _produce(producer, said.topic, values, partitions)
        per_100ms[int((time.monotonic() - began) * 10)] += due
        sent += due
        if due < _BLOCK:
            time.sleep(_PAUSE_S)
    while not refused and producer.flush(1.0):
        pass
    if refused:
        print(f"not all is confirmed: {refused[0]}", file=sys.stderr)
        return 1
    made = {"sent": sent, "began_ms": began_ms, "per_100ms": dict(sorted(per_100ms.items()))}
    partial = said.record.with_suffix(".tmp")
    partial.write_text(json.dumps(made))
    partial.rename(said.record)
    return 0


def _produce(producer: Any, topic: str, values: list[str], partitions: list[int]) -> None:
    produce = producer.produce
    for value, partition in zip(values, partitions, strict=True):
        while True:
            try:
                produce(topic, value, None, partition)
                break
            except BufferError:
                producer.poll(0.01)
    producer.poll(0)


if __name__ == "__main__":
    sys.exit(main())
