"""The producer of the soak, a process of its own: numbers the records of each key, sends them at a
rate until it is asked to end (SIGTERM), and keeps a record of what the broker has confirmed.

usage: soak_producer.py BROKERS TOPIC RECORD --rate N --keys N [--seed N]

RECORD becomes a JSON object: `confirmed`, for each key how many records the broker has confirmed. It is
written when all that was sent is confirmed, and not at all where a record was refused: then nothing is
known, and the exit code is 1. `sent_us` in a record is of the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

_PAUSE_S = 0.005


def main() -> int:
    cli = argparse.ArgumentParser(description="Sends numbered records at a rate, and counts them.")
    cli.add_argument("brokers")
    cli.add_argument("topic")
    cli.add_argument("record", type=Path)
    cli.add_argument("--rate", type=float, required=True, help="records a second")
    cli.add_argument("--keys", type=int, required=True)
    cli.add_argument("--seed", type=int, default=0)
    said = cli.parse_args()
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))

    confirmed = [0] * said.keys
    refused: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(str(error))
        else:
            confirmed[int(message.key())] += 1

    producer = Producer(
        {
            "bootstrap.servers": said.brokers,
            "enable.idempotence": True,  # In order and once, whatever the broker goes through.
            "message.timeout.ms": 0,  # It may be away for as long as it likes.
            "linger.ms": 5,
            "on_delivery": delivered,
        }
    )
    rng = random.Random(said.seed)
    numbers = [0] * said.keys
    print("begins", flush=True)
    began, sent = time.monotonic(), 0
    while not asked_to_end and not refused:
        due = int((time.monotonic() - began) * said.rate) - sent
        for _ in range(due):
            key, now_us = rng.randrange(said.keys), time.monotonic_ns() // 1000
            value = f'{{"key":{key},"number":{numbers[key]},"sent_us":{now_us}}}'
            while True:
                try:
                    producer.produce(said.topic, value, str(key))
                    break
                except BufferError:  # The broker is away.
                    producer.poll(0.1)
            numbers[key] += 1
        sent += due
        producer.poll(0)
        time.sleep(_PAUSE_S)
    while not refused and producer.flush(1.0):
        pass
    if refused or confirmed != numbers:
        print(f"not all is confirmed: {refused[:1]}", file=sys.stderr)
        return 1
    partial = said.record.with_suffix(".tmp")
    partial.write_text(json.dumps({"confirmed": dict(enumerate(confirmed))}))
    partial.rename(said.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
