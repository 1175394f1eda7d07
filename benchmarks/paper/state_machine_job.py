"""The job of the state machine: follows each user through the shop, and writes an alert for each event
that no rule allows. `state_machine.py` runs it through `rheos run`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh
from rheos.cli.benchmarks.measured_connectors import MeasuredSource
from rheos.cli.benchmarks.state_machine import INITIAL, RULES


@dataclass(frozen=True)
class Event:
    user: int
    number: int  # Of the user's events.
    kind: str
    there_ms: int  # When the broker had it.


@dataclass(frozen=True)
class Alert:
    user: int
    number: int
    state: str
    kind: str
    there_ms: int


class Validate(rh.KeyedProcessFunction):
    """Alerts on a step that no rule allows, and starts over."""

    state = rh.ValueState(str, default=INITIAL)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Alert]:
        following = RULES.get((self.state.value, event.kind))
        if following is None:
            yield Alert(event.user, event.number, self.state.value, event.kind, event.there_ms)
            self.state.clear()
        else:
            self.state.value = following


def main() -> None:
    cli = ArgumentParser(description="Holds the events of a topic to the rules of a shop.")
    cli.add_argument("brokers")
    cli.add_argument("source")
    cli.add_argument("target")
    cli.add_argument("guarantee", choices=["exactly_once", "at_least_once"])
    cli.add_argument("measures", help="the folder in which the rows that are read are counted")
    said = cli.parse_args()
    env = rh.Environment(
        checkpoint_interval="1s",
        buffer_timeout="5ms",
        restart=rh.restart.exponential_delay(initial="100ms", max="1s"),
    )
    source = rh.kafka.source(
        said.source,
        brokers=said.brokers,
        schema=Event,
        format=rh.formats.json(),
        metadata={"timestamp": "there_ms"},
        discover=None,
    )
    events = env.from_source(MeasuredSource(source, said.measures), uid="events")
    alerts = events.key_by("user").process(Validate()).uid("rules")
    alerts.sink_to(
        rh.kafka.sink(
            said.target,
            brokers=said.brokers,
            key="user",
            guarantee=said.guarantee,
        ),
        uid="alerts",
    )
    env.execute("state machine")


if __name__ == "__main__":
    main()
