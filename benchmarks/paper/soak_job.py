"""The job of the soak: counts the records of each key twice, once in declared state and once as a
running aggregate, and writes each record with both counts to another topic, exactly once.

`soak.py` runs it through `rheos run`, again and again where its driver is killed.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh


@dataclass(frozen=True)
class Sent:
    key: int
    number: int  # Of the key's records, from 0.
    sent_us: int


@dataclass(frozen=True)
class Counted:
    key: int
    number: int
    sent_us: int
    seen: int  # The key's records so far, with this one.


class Count(rh.KeyedProcessFunction):
    seen = rh.ValueState(int, default=0)

    def process_element(self, record: Sent, ctx: rh.KeyedContext) -> Iterator[Counted]:
        self.seen.value += 1
        yield Counted(record.key, record.number, record.sent_us, self.seen.value)


def build(env: rh.Environment, brokers: str, source: str, target: str) -> None:
    records = env.from_source(
        rh.kafka.source(
            source, brokers=brokers, schema=Sent, format=rh.formats.json(), group="soak", discover=None
        ),
        uid="records",
    )
    counted = records.key_by("key").process(Count()).uid("count")
    counted = counted.key_by("key").running(running=rh.agg.count()).uid("running")
    counted.sink_to(rh.kafka.sink(target, brokers=brokers, key="key"), uid="out")


def main() -> None:
    cli = ArgumentParser(description="Counts the records of a topic by key, into another topic.")
    cli.add_argument("brokers")
    cli.add_argument("source")
    cli.add_argument("target")
    said = cli.parse_args()
    env = rh.Environment(checkpoint_interval="1s", restart=rh.restart.exponential_delay(max="2s"))
    build(env, said.brokers, said.source, said.target)
    env.execute("soak")


if __name__ == "__main__":
    main()
