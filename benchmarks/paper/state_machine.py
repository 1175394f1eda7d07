"""The state machine from Kafka, at 30,000 events a second and core and at a quarter of it: its latency
when nothing happens, and its throughput over time while a worker is killed again and again. The alerts
must be the planted ones."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.paper.committed import Committed, make_topics
from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.plots import GENERATOR, RHEOS, Plots, legend, panels, titled
from benchmarks.paper.shop import Alert, Shop, judge
from benchmarks.paper.struck import Produced, Record, Strikes, Struck, strike
from benchmarks.paper.tables import millions, sections, spread, table
from rheos.cli.benchmarks.measured_connectors import SOURCE
from rheos.cli.benchmarks.recorder import read_slices
from rheos.testing.servers import KafkaBroker

JOB = Path(__file__).with_name("state_machine_job.py")
CORES = 2
RATE_PER_CORE = 30_000
QUIETER = 4
"""It runs at a quarter of that first: there the latency is that of the system, not of its load."""
SENT_AT_ONCE = "at least once"
HELD = "exactly once, a checkpoint each second"
KILLED = "the same, workers killed"
SPARK = "Structured Streaming"
USERS = 10_000
PARTITIONS = 4
KILL_EVERY_S = 12.0
KILLS = 4
SETTLED_S = 5.0
"""From the first alert on, until delays count."""
BIN_S = 0.5


class Out(msgspec.Struct, frozen=True):
    """An alert in the output topic."""

    user: int
    number: int
    state: str
    kind: str
    there_ms: int


class Alerts:
    """What a reader of committed records has seen."""

    def __init__(self) -> None:
        self.found: list[Alert] = []
        self.there_ms: list[int] = []
        """When the broker had the event."""
        self.written_ms: list[int] = []
        """When it had the alert."""
        self.seen_ms: list[float] = []
        """When the reader had it."""
        self._decode = msgspec.json.Decoder(Out).decode

    def take(self, messages: Sequence[Any], now_ns: int) -> None:
        for message in messages:
            alert = self._decode(message.value())
            self.found.append((alert.user, alert.number, alert.state, alert.kind))
            self.there_ms.append(alert.there_ms)
            self.written_ms.append(message.timestamp()[1])
            self.seen_ms.append(now_ns / 1e6)


def run(options: Options) -> dict[str, Any]:
    full = CORES * (RATE_PER_CORE // 10 if options.quick else RATE_PER_CORE)
    kills = 1 if options.quick else KILLS
    calm_s = 6.0 if options.quick else 2.5 * options.seconds
    alone = Strikes(calm_s + SETTLED_S, None)
    killing = Strikes((kills + 0.6) * (KILL_EVERY_S + 1), KILL_EVERY_S)
    ways: dict[str, tuple[Callable[..., dict[str, Any]], Strikes]] = {
        SENT_AT_ONCE: (partial(_rheos, guarantee="at_least_once"), alone),
        HELD: (partial(_rheos, guarantee="exactly_once"), alone),
        KILLED: (partial(_rheos, guarantee="exactly_once"), killing),
        SPARK: (_spark, alone),
    }
    numbers = count()
    with KafkaBroker() as broker:

        def measure(cell: Cell) -> dict[str, Any]:
            return _run(broker.address, str(next(numbers)), cell["rate_per_s"], *ways[cell["run"]])

        cells = [{"run": what, "rate_per_s": rate} for rate in (full // QUIETER, full) for what in ways]
        return {"runs": in_turns(options, cells, measure)}


@dataclass(frozen=True)
class Topics:
    """What a run reads and writes, and who fills it."""

    brokers: str
    source: str
    target: str
    producer: Sequence[str]
    record: Path
    folder: Path
    is_out: Callable[[Record], bool]


def _run(
    brokers: str, name: str, rate_per_s: int, measure: Callable[..., dict[str, Any]], strikes: Strikes
) -> dict[str, Any]:
    source, target = f"events-{name}", f"alerts-{name}"
    # The topics' timestamps are then the broker's own: when it had a record.
    topics = {source: PARTITIONS, target: PARTITIONS}
    make_topics(brokers, topics, {"message.timestamp.type": "LogAppendTime"})
    shop, alerts = Shop(USERS), Alerts()
    expected: dict[int, int] = {}

    def is_out(made: Record) -> bool:
        if not expected:
            expected[made["sent"]] = len(shop.planted(made["sent"]))
        return len(alerts.found) >= expected[made["sent"]]

    with tempfile.TemporaryDirectory(prefix="rheos-shop-") as folder:
        record = Path(folder, "record.json")
        settings = json.dumps({"users": shop.users, "seed": shop.seed})
        command = [sys.executable, "-m", "benchmarks.paper.producer", "shop", brokers, source]
        producer = [*command, str(record), "--partitions", str(PARTITIONS), "--settings", settings]
        producer += ["--rate", str(rate_per_s)]
        reader = Committed(brokers, target, PARTITIONS, alerts.take)
        at = Topics(brokers, source, target, producer, record, Path(folder), is_out)
        measurements = measure(at, strikes, alerts)
        reader.end()
    there, written, seen = map(np.array, (alerts.there_ms, alerts.written_ms, alerts.seen_ms))
    steady = there > there[:1] + SETTLED_S * 1000
    verdict = judge(alerts.found, shop.planted(measurements["sent"]))
    return {
        **measurements,
        "ok": verdict.ok and not measurements.get("failure"),
        "verdict": asdict(verdict),
        "to_broker_ms": _quantiles((written - there)[steady]),
        "to_reader_ms": _quantiles((seen - there)[steady]),
    }


def _rheos(at: Topics, strikes: Strikes, alerts: Alerts, guarantee: str) -> dict[str, Any]:
    measures = at.folder / "measures"
    measures.mkdir()
    job = [str(JOB), "--parallelism", str(CORES), "--checkpoint-dir", str(at.folder / "job")]
    job += ["--", at.brokers, at.source, at.target, guarantee, str(measures)]
    struck = strike(job, at.producer, at.record, strikes, at.is_out)
    return _measurements(struck, alerts, read_slices(str(measures), SOURCE))


def _spark(at: Topics, strikes: Strikes, alerts: Alerts) -> dict[str, Any]:
    """It is left alone: in one process, without a cluster, a query ends with its first lost worker."""
    command = [sys.executable, "-m", "benchmarks.paper.state_machine_spark"]
    produced = Produced(at.producer, at.record, at.is_out)
    query = subprocess.Popen(
        [*command, at.brokers, at.source, at.target, str(at.folder / "query")], stdout=subprocess.PIPE
    )
    try:
        assert query.stdout is not None
        while (line := query.stdout.readline()) and line != b"runs\n":
            pass
        produced.begin()
        time.sleep(strikes.for_s)
        while not produced.is_over() and query.poll() is None:
            time.sleep(0.2)
        query.terminate()
        failure = f"exit code {query.returncode}" if query.wait() else None
    finally:
        produced.end()
        query.kill()
        query.communicate()
    if produced.record is None:
        raise RuntimeError(f"the producer has left no record; the query: {failure or 'sound'}")
    return {"sent": produced.record["sent"], "failure": failure}


def _measurements(struck: Struck, alerts: Alerts, read: Sequence[Any]) -> dict[str, Any]:
    record, began_s = struck.record, struck.began_s
    produced = {record["began_ms"] / 1000 + int(at) / 10: n for at, n in record["per_100ms"].items()}
    rows = Counter[float]()
    for slices in read:
        for each in slices:
            rows[each.number / 10] += each.rows
    there, seen = np.array(alerts.there_ms), np.array(alerts.seen_ms)
    strikes = []
    for each in struck.report.strikes:
        at_ms = (began_s + each.at_s) * 1000
        # Events of the seconds before and after, until the next strike may come.
        around = (there > at_ms - 2000) & (there < at_ms + (KILL_EVERY_S - 2) * 1000)
        late = (seen - there)[around]
        strikes.append(
            {
                "at_s": round(each.at_s, 2),
                "back_after_s": each.back_after_s,
                "longest_delay_s": round(float(late.max()) / 1000, 3) if len(late) else None,
                "no_rows_for_s": _silence(rows, began_s + each.at_s),
            }
        )
    return {
        "sent": record["sent"],
        "failure": struck.report.failure,
        "clock_moved_ms": struck.clock_moved_ms,
        "strikes": strikes,
        "generator": _binned(produced, began_s),
        "job": _binned(rows, began_s),
    }


def _silence(rows: Counter[float], at_s: float) -> float | None:
    """From a strike to the first tenth of a second in which the source gave rows again."""
    # What a killed worker has counted in its last half second is lost; the other goes on for a moment.
    begins = sorted(at for at, n in rows.items() if n and at > at_s + 0.2)
    return round(begins[0] - at_s, 2) if begins else None


def _quantiles(values: Any) -> dict[str, float]:
    if not len(values):
        return {}
    return {f"p{q}": round(float(np.percentile(values, q)), 1) for q in (50, 99)}


def _binned(counts: dict[float, int] | Counter[float], began_s: float) -> list[tuple[float, float]]:
    """Events per second, over seconds since the beginning."""
    bins = Counter[int]()
    for at, number in counts.items():
        bins[int((at - began_s) // BIN_S)] += number
    if not bins:
        return []
    return [(at * BIN_S, bins[at] / BIN_S) for at in range(min(bins), max(bins) + 1)]


# --- what is shown --------------------------------------------------------------------------------


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    rates = sorted({each["rate_per_s"] for each in runs})
    killed = [where(runs, run=KILLED, rate_per_s=rate)[0] for rate in rates]
    figure, axes = panels(len(killed))
    for axis, each in zip(axes, killed, strict=True):
        for name, colour in (("generator", GENERATOR), ("job", RHEOS)):
            at, rate = zip(*each[name], strict=True)
            axis.plot(at, [value / 1000 for value in rate], color=colour, label=name)
        for struck in each["strikes"]:
            axis.axvline(struck["at_s"], linestyle=":", linewidth=1, color=GENERATOR)
        titled(axis, f"{millions(each['rate_per_s'])} events a second", "s", "thousand events a second")
        axis.set_ylim(bottom=0)
    legend(figure)
    alt = "Events a second over time: what the generator sends, and what the job reads"
    drawn = plots.save(figure, "chaos", f"{alt}; at each dotted line a worker is killed")
    heads = (
        "",
        "events/s",
        "events",
        "alerts",
        "missing, false, doubled, out of order",
        "p50 ms",
        "p99 ms",
    )
    rows = []
    for what, rate in {(each["run"], each["rate_per_s"]): None for each in runs}:
        of = where(runs, run=what, rate_per_s=rate)
        wrong = ", ".join(str(sum(each["verdict"][kind] for each in of)) for kind in _WRONG)
        sent, alerts = sum(each["sent"] for each in of), sum(each["verdict"]["found"] for each in of)
        late = (spread(of, f"to_reader_ms.{name}") for name in ("p50", "p99"))
        rows.append((what, millions(rate), f"{sent:,}", f"{alerts:,}", wrong, *late))
    kills = []
    for rate in rates:
        struck = [at for each in where(runs, run=KILLED, rate_per_s=rate) for at in each["strikes"]]
        kills.append((millions(rate), str(len(struck)), *(spread(struck, n, _s) for n in _AFTER)))
    return sections(
        drawn,
        "Latency is from when the broker has the event to when a reader of committed records has "
        "its alert.",
        table(heads, rows),
        table(("events/s", "killed workers", *_AFTER.values()), kills),
        _says(runs),
    )


def _says(runs: list[dict[str, Any]]) -> str:
    ours = [each for each in runs if each["run"] != SPARK]
    wrong = sum(each["verdict"][kind] for each in ours for kind in _WRONG)
    says = "The alerts are just the planted ones." if not wrong else f"{wrong:,} alerts are wrong."
    return f"{says} Exactly once adds the wait for a checkpoint."


_WRONG = {
    "missing": "missing",
    "false": "false",
    "doubled": "doubled",
    "out_of_order": "out of order",
}
_AFTER = {
    "no_rows_for_s": "rows are read again after",
    "back_after_s": "all workers there again after",
    "longest_delay_s": "the longest delay of an alert",
}


def _s(seconds: float) -> str:
    return f"{seconds:.1f} s"


EXPERIMENT = Experiment(
    name="chaos",
    about="the state machine from Kafka while workers are killed, and its latency",
    run=run,
    show=show,
)
