"""The state machine from Kafka, at 30,000 events a second and core: its latency when nothing happens,
and its throughput over time while a worker is killed again and again. The alerts must be the planted
ones."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from benchmarks.paper.committed import Committed, make_topics
from benchmarks.paper.experiment import Experiment, Options
from benchmarks.paper.plots import GENERATOR, RHEOS, Plots, legend, panels, titled
from benchmarks.paper.shop import Alert, Shop, judge
from benchmarks.paper.struck import Record, Strikes, Struck, strike
from benchmarks.paper.tables import digits, millions, table
from rheos.bench.recorder import read_slices
from rheos.bench.taps import SOURCE
from rheos.testing.servers import KafkaBroker

JOB = Path(__file__).with_name("state_machine_job.py")
CORES = 2
RATE_PER_CORE = 30_000
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
    rate = CORES * (RATE_PER_CORE // 10 if options.quick else RATE_PER_CORE)
    kills = 1 if options.quick else KILLS
    calm_s = 6.0 if options.quick else 2.5 * options.seconds
    alone = Strikes(calm_s + SETTLED_S, None)
    killing = Strikes((kills + 0.6) * (KILL_EVERY_S + 1), KILL_EVERY_S)
    with KafkaBroker() as broker:
        runs = {}
        for name, guarantee, strikes in (
            ("calm", "at_least_once", alone),
            ("held", "exactly_once", alone),
            ("killed", "exactly_once", killing),
        ):
            options.say(f"{guarantee}, {'workers are killed' if strikes.every_s else 'left alone'}")
            runs[name] = _run(broker.address, name, rate, guarantee, strikes)
    return {"rate_per_s": rate, **runs}


def _run(brokers: str, name: str, rate_per_s: int, guarantee: str, strikes: Strikes) -> dict[str, Any]:
    source, target = f"events-{name}", f"alerts-{name}"
    # The topics' timestamps are then the broker's own: when it had a record.
    topics = {source: PARTITIONS, target: PARTITIONS}
    make_topics(brokers, topics, {"message.timestamp.type": "LogAppendTime"})
    shop, alerts = Shop(USERS), Alerts()
    with tempfile.TemporaryDirectory(prefix="rheos-shop-") as folder:
        record, measures = Path(folder, "record.json"), Path(folder, "measures")
        measures.mkdir()
        settings = json.dumps({"users": shop.users, "seed": shop.seed})
        command = [sys.executable, "-m", "benchmarks.paper.producer", "shop", brokers, source]
        producer = [*command, str(record), "--partitions", str(PARTITIONS), "--settings", settings]
        job = [str(JOB), "--parallelism", str(CORES), "--checkpoint-dir", str(Path(folder, "job"))]
        expected: dict[int, int] = {}

        def is_out(made: Record) -> bool:
            if not expected:
                expected[made["sent"]] = len(shop.planted(made["sent"]))
            return len(alerts.found) >= expected[made["sent"]]

        reader = Committed(brokers, target, PARTITIONS, alerts.take)
        struck = strike(
            [*job, "--", brokers, source, target, guarantee, str(measures)],
            [*producer, "--rate", str(rate_per_s)],
            record,
            strikes,
            is_out,
        )
        reader.end()
        return _figures(struck, alerts, shop, read_slices(str(measures), SOURCE))


def _figures(struck: Struck, alerts: Alerts, shop: Shop, read: Sequence[Any]) -> dict[str, Any]:
    record, began_s = struck.record, struck.began_s
    produced = {record["began_ms"] / 1000 + int(at) / 10: n for at, n in record["per_100ms"].items()}
    rows = Counter[float]()
    for slices in read:
        for each in slices:
            rows[each.number / 10] += each.rows
    there, seen = np.array(alerts.there_ms), np.array(alerts.seen_ms)
    written = np.array(alerts.written_ms)
    steady = there > there[:1] + SETTLED_S * 1000
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
    verdict = judge(alerts.found, shop.planted(record["sent"]))
    return {
        "sent": record["sent"],
        "ok": verdict.ok and struck.report.ok,
        "failure": struck.report.failure,
        "clock_moved_ms": struck.clock_moved_ms,
        "verdict": asdict(verdict),
        "to_broker_ms": _quantiles((written - there)[steady]),
        "to_reader_ms": _quantiles((seen - there)[steady]),
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
    killed = results["killed"]
    figure, (axis,) = panels(1)
    for name, colour in (("generator", GENERATOR), ("job", RHEOS)):
        at, rate = zip(*killed[name], strict=True)
        axis.plot(at, [each / 1000 for each in rate], color=colour, label=name)
    for each in killed["strikes"]:
        axis.axvline(each["at_s"], linestyle=":", linewidth=1, color=GENERATOR)
    titled(axis, "A worker is killed at each dotted line", "s", "thousand events a second")
    axis.set_ylim(bottom=0)
    legend(figure)
    alt = "Events a second over time: what the generator sends, and what the job reads"
    drawn = plots.save(figure, "chaos", f"{alt}; at each dotted line a worker is killed")
    runs = {
        "at least once": results["calm"],
        "exactly once, a checkpoint each second": results["held"],
        "the same, workers killed": killed,
    }
    heads = ("", "events", "alerts", "missing, false, doubled, out of order", "p50 ms", "p99 ms")
    rows = []
    for name, each in runs.items():
        verdict = each["verdict"]
        wrong = [verdict[kind] for kind in ("missing", "false", "doubled", "out_of_order")]
        late = each["to_reader_ms"]
        rows.append(
            (name, f"{each['sent']:,}", f"{verdict['found']:,}", ", ".join(map(str, wrong)),
             digits(late.get("p50")), digits(late.get("p99")))
        )  # fmt: skip
    strikes = [
        (f"at {each['at_s']:.0f} s", *(_s(each[name]) for name in _AFTER)) for each in killed["strikes"]
    ]
    return "\n\n".join(
        (
            drawn,
            f"{millions(results['rate_per_s'])} events a second in all. Latency is from when the "
            "broker has the event to when a reader of committed records has its alert.",
            table(heads, rows),
            table(("a worker is killed", *_AFTER.values()), strikes),
            _says(results, list(runs.values())),
        )
    )


def _says(results: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    kinds = ("missing", "false", "doubled", "out_of_order")
    wrong = sum(each["verdict"][kind] for each in runs for kind in kinds)
    says = "The alerts are just the planted ones." if not wrong else f"{wrong:,} alerts are wrong."
    calm = results["calm"]["to_reader_ms"]
    says += (
        f" At least once, half of them are there {digits(calm['p50'])} ms after their event, and 99 % "
        f"after {digits(calm['p99'])} ms; exactly once adds the wait for a checkpoint."
    )
    killed = results["killed"]["strikes"]
    silent = [each["no_rows_for_s"] for each in killed if each["no_rows_for_s"] is not None]
    if silent:
        says += (
            f" A killed worker stops the job for {_s(median(silent))} in the median of {len(silent)}, "
            f"{_s(max(silent))} at the most."
        )
    return says


_AFTER = {
    "no_rows_for_s": "rows are read again after",
    "back_after_s": "all workers there again after",
    "longest_delay_s": "the longest delay of an alert",
}


def _s(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"


EXPERIMENT = Experiment(
    name="chaos",
    about="the state machine from Kafka while workers are killed, and its latency",
    run=run,
    show=show,
    rounds=1,
)
