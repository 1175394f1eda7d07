"""Visits to a shop, checked against its rules: an alert for every event that no rule allows.

Each user's events come in cycles of eight, an hour or more apart. Almost all cycles keep the rules;
some contain one event that breaks them, which the seed determines: so the expected alerts are known
before the job runs. Some cycles stop early, and a timer ends the visit. A lost event, state or timer,
or a repeated event, would cause an unexpected alert; a lost or duplicated output, a wrong number.

    rheos run examples/state_machine.py -- --events 400000      twenty seconds
    rheos chaos examples/state_machine.py --kill-every 5s -- --events 400000 --out out/visits
    python examples/state_machine.py --events 400000 --check out/visits
"""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

import rheos as rh

OUTSIDE = "outside"
RULES = {
    ("outside", "sign_in"): "browsing",
    ("browsing", "add"): "shopping",
    ("shopping", "add"): "shopping",
    ("shopping", "remove"): "browsing",
    ("shopping", "pay"): "paid",
    ("paid", "ship"): "browsing",
    ("browsing", "sign_out"): "outside",
}
Numbers = npt.NDArray[Any]
SILENCE = rh.duration("30m")  # After it a user has left.
STEP = rh.duration("1m")  # Between the events of a lap.

LAP = 8
GOOD = """
    sign_in add    add    pay  ship     add      remove   sign_out
    sign_in add    remove add  pay      ship     sign_out sign_in
    sign_in add    add    add  remove   sign_out sign_in  sign_out
    sign_in add    pay    ship sign_out sign_in  add      add
    sign_in sign_out sign_in add remove add      pay      ship
"""
# The marked event breaks the rules, which takes the user outside; from there the lap keeps them.
WRONG = """
    sign_in add  add     pay *add   sign_in sign_out sign_in
    sign_in *pay sign_in add remove sign_out sign_in add
    *ship sign_in add pay ship add remove sign_out
    sign_in add pay ship *remove sign_in add pay
    sign_in sign_out *sign_out sign_in add add remove sign_out
    sign_in add add add add add add *sign_out
"""
WRONG_LAPS_IN = 40
"""One in this number of cycles breaks a rule."""


@dataclass(frozen=True)
class Event:
    user: int
    number: int  # Of the user's events.
    kind: str
    at: int  # Milliseconds since the epoch.


@dataclass(frozen=True)
class Alert:
    user: int
    number: int
    state: str
    kind: str


class Validate(rh.KeyedProcessFunction):
    """Follows each user through the shop, alerts on a step that no rule allows, and starts over."""

    state = rh.ValueState(str, default=OUTSIDE)
    gone_at = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Alert]:
        following = RULES.get((self.state.value, event.kind))
        if following is None:
            yield Alert(event.user, event.number, self.state.value, event.kind)
            self.state.clear()
        else:
            self.state.value = following
        self.gone_at.value = ctx.timestamp + SILENCE
        ctx.timers.register(self.gone_at.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Alert]:
        if timestamp == self.gone_at.value:
            self.state.clear()
            self.gone_at.clear()
        yield from ()


def _laps(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


KINDS = sorted({kind for _, kind in RULES})
LAPS = np.array([[KINDS.index(kind.lstrip("*")) for kind in lap] for lap in _laps(GOOD) + _laps(WRONG)])
BROKEN_AT = np.array([[kind[0] for kind in lap].index("*") for lap in _laps(WRONG)])
GOOD_LAPS = len(_laps(GOOD))


@dataclass(frozen=True)
class Visits:
    """Makes the events. A user's are all of one split, so that they stay in order: each round has one
    event of every user of the split, in an order that changes from round to round."""

    users: int
    splits: int
    seed: int

    def __call__(self, block: rh.Block) -> pa.RecordBatch:
        users = self.users_of(block.split)
        number, place = np.divmod(block.index(), len(users))
        user = users[(place * self._stride(len(users)) + number) % len(users)]
        kind = LAPS[self.lap(user, number // LAP), number % LAP]
        at = number // LAP * rh.duration("2h") + number % LAP * STEP
        columns = {"user": user, "number": number, "at": at}
        made = pa.RecordBatch.from_pydict(columns)
        return made.append_column("kind", pa.array(KINDS).take(pa.array(kind)))

    def users_of(self, split: int) -> Numbers:
        return np.arange(split, self.users, self.splits, dtype=np.int64)

    def lap(self, user: Numbers, lap: Numbers) -> Numbers:
        """Which of the laps these are."""
        drawn = _mixed(user, lap, self.seed)
        good = drawn // WRONG_LAPS_IN % GOOD_LAPS
        wrong = GOOD_LAPS + drawn // WRONG_LAPS_IN % len(BROKEN_AT)
        return np.where(drawn % WRONG_LAPS_IN, good, wrong).astype(np.int64)

    def planted(self, events: int) -> list[Alert]:
        """Return the alerts that a run over this number of events must emit, by user and number."""
        alerts = []
        for split in range(self.splits):
            users = self.users_of(split)
            rows = events // self.splits + (split < events % self.splits)
            laps = -(-rows // (len(users) * LAP))
            user, lap = np.repeat(users, laps), np.tile(np.arange(laps), len(users))
            which = self.lap(user, lap) - GOOD_LAPS
            broken = which >= 0
            number = lap[broken] * LAP + BROKEN_AT[which[broken]]
            for who, n, bad in zip(user[broken], number, which[broken], strict=True):
                if self._row(split, int(who), int(n)) < rows:
                    alerts.append(Alert(int(who), int(n), *_broken(int(bad))))
        return sorted(alerts, key=_place)

    def _row(self, split: int, user: int, number: int) -> int:
        """Return the row of the user's event with this number in its split."""
        users = len(self.users_of(split))
        back = pow(self._stride(users), -1, users) if users > 1 else 0
        return number * users + (user // self.splits - number) * back % users

    @staticmethod
    def _stride(users: int) -> int:
        """Steps by it come by every user."""
        return next(s for s in range(users * 5 // 8 + 1, 2 * users + 1) if np.gcd(s, users) == 1)


def _mixed(user: Numbers, lap: Numbers, seed: int) -> Numbers:
    """Well-mixed numbers that depend on the three alone."""
    bits = user.astype(np.uint64) << np.uint64(32) ^ lap.astype(np.uint64)
    bits ^= np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(factor)
    return bits ^ bits >> np.uint64(31)


def _broken(lap: int) -> tuple[str, str]:
    """The state of the user, and the kind of the event that breaks the rules of a wrong lap."""
    state = OUTSIDE
    for kind in _laps(WRONG)[lap]:
        if kind.startswith("*"):
            return state, kind[1:]
        state = RULES[state, kind]
    raise AssertionError("every wrong lap has a mark")


def _place(alert: Alert) -> tuple[int, int]:
    return alert.user, alert.number


def alerts_in(out: Path) -> list[Alert]:
    """Return the alerts that the job has published."""
    files = [file for file in out.glob("part-*.jsonl") if file.stat().st_size]
    rows = pl.concat([pl.read_ndjson(file) for file in files]).to_dicts() if files else []
    return sorted((Alert(**row) for row in rows), key=_place)


def faults(found: Sequence[Alert], planted: Sequence[Alert], *, ended: bool = True) -> list[str]:
    """Return the differences between a job's alerts and the planted ones. If the job has not ended, the
    last alerts of each user may still be missing."""
    expected = set(planted)
    wrong = [f"false: {alert}" for alert in found if alert not in expected]
    wrong += [f"{n} times: {alert}" for alert, n in Counter(found).items() if n > 1]
    seen = set(found)
    latest = {alert.user: alert.number for alert in sorted(found, key=_place)}
    for alert in planted:
        if alert not in seen and (ended or alert.number < latest.get(alert.user, 0)):
            wrong.append(f"missing: {alert}")
    return wrong


def build(
    env: rh.Environment, visits: Visits, events: int | None = None, rate: float | None = None
) -> rh.DataStream:
    """The program: a stream of alerts. Without `events` it never ends."""
    made = rh.generator(
        visits,
        schema=Event,
        count=events,
        rate_per_s=rate,
        splits=visits.splits,
        block_rows=1024,
    )
    given = env.from_source(made, watermark=rh.Watermark.monotonic(on="at"), name="visits")
    return given.key_by("user").process(Validate(), order="event_time").name("rules").uid("rules")


def check(out: Path, visits: Visits, events: int | None) -> int:
    """Print what is wrong with the published alerts, and return the exit code."""
    found = alerts_in(out)
    rounds = max((alert.number for alert in found), default=0) + 1
    given = events or rounds * -(-visits.users // visits.splits) * visits.splits
    planted = visits.planted(given)
    wrong = faults(found, planted, ended=events is not None)
    for line in wrong[:20]:
        print(line)
    print(f"{len(found):,} alerts in {out}, {len(planted):,} planted; {len(wrong):,} faults")
    return 1 if wrong else 0


def main() -> int:
    cli = ArgumentParser(description=__doc__.splitlines()[0])
    cli.add_argument("--events", type=int, help="how many; without it the job never ends")
    cli.add_argument("--rate", type=float, default=20_000, help="events a second")
    cli.add_argument("--users", type=int, default=1_000)
    cli.add_argument("--splits", type=int, default=4)
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--out", type=Path, default=Path(f"out/visits-{datetime.now():%Y%m%d-%H%M%S}"))
    cli.add_argument("--heartbeat-timeout", default="15s", help="how long a worker may fall silent")
    cli.add_argument("--check", type=Path, metavar="OUT", help="only check what a run has published")
    said = cli.parse_args()
    visits = Visits(said.users, said.splits, said.seed)
    if said.check:
        return check(said.check, visits, said.events)
    env = rh.Environment(
        runtime="continuous",
        checkpoint_interval="1s",
        heartbeat_timeout=said.heartbeat_timeout,
        restart=rh.restart.exponential_delay(max="2s"),
    )
    found = build(env, visits, said.events, said.rate)
    found.sink_to(rh.files.sink(said.out, format="jsonl"), name="alerts")
    env.execute("state machine")
    print(f"{len(alerts_in(said.out)):,} alerts in {said.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
