"""The soak: from Kafka to Kafka exactly once while workers and the driver are killed; nothing lost,
nothing doubled.

    python -m benchmarks.paper.soak                     20 minutes, a kill every 20 s
    python -m benchmarks.paper.soak --quick             one minute
    python -m benchmarks.paper.soak --faults workers,freeze,driver --broker-every 90s

A producer of its own process numbers the records of each key and keeps its own record of what the
broker has confirmed. The job counts each key in two ways and writes each record on with both counts.
A reader of committed records holds what comes out against the producer's record: each number of each
key once, in order, with both counts right. The exit code is 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import rheos as rh
from benchmarks.paper.committed import Committed, make_topics
from benchmarks.paper.experiment import Experiment, Options
from benchmarks.paper.plots import GENERATOR, Plots, legend, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.soak_check import Out, Sequences
from benchmarks.paper.struck import Record, Strikes, strike
from rheos.core.checkpoint.log import JobLog
from rheos.core.protocol.ids import JobId
from rheos.ops.chaos import Fault
from rheos.runtimes.host.stores import open_store
from rheos.testing.servers import KafkaBroker

HERE = Path(__file__).parent
SOURCE, TARGET = "sent", "counted"
PARTITIONS = 4


@dataclass(frozen=True)
class Settings:
    minutes: float = 20.0
    rate_per_s: float = 2_000.0
    keys: int = 1_000
    kill_every_s: float = 20.0
    faults: frozenset[Fault] = frozenset({Fault.WORKERS, Fault.DRIVER})
    broker_every_s: float | None = None
    """Kills the broker, too."""
    seed: int = 0


@dataclass
class Delays:
    """How late records came out, and when none did; by the machine's monotonic clock."""

    worst_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """The longest that a record of this second took to come out."""
    sample_s: list[float] = field(default_factory=list)
    longest_silence_s: float = 0.0
    last_s: float | None = None

    def take(self, sent_us: Sequence[int]) -> None:
        now_s = time.monotonic()
        worst = now_s - min(sent_us) / 1e6
        self.worst_s[int(now_s)] = max(self.worst_s[int(now_s)], worst)
        self.sample_s.append(now_s - sent_us[len(sent_us) // 2] / 1e6)
        if self.last_s is not None:
            self.longest_silence_s = max(self.longest_silence_s, now_s - self.last_s)
        self.last_s = now_s

    def within(self, begin_s: float, end_s: float) -> float | None:
        """The longest delay of what came out then; None where nothing did."""
        worst = [delay for at, delay in self.worst_s.items() if begin_s < at + 1 and at < end_s]
        return max(worst, default=None)


class BrokerKiller(threading.Thread):
    """Kills the broker now and then, and starts it again with its data."""

    def __init__(self, broker: KafkaBroker, every_s: float | None) -> None:
        super().__init__(name="broker killer", daemon=True)
        self.kills_s: list[float] = []
        self._broker, self._every_s = broker, every_s
        self._over = threading.Event()

    def run(self) -> None:
        while self._every_s is not None and not self._over.wait(self._every_s):
            self.kills_s.append(time.monotonic())
            self._broker.kill()
            self._broker.start()
            took_s = time.monotonic() - self.kills_s[-1]
            print(f"           SIGKILL  broker, which is back after {took_s:.1f} s", file=sys.stderr)

    def end(self) -> None:
        """Returns when the broker is there."""
        self._over.set()
        self.join()


def soak(settings: Settings) -> dict[str, Any]:
    """Soak, and return the measurements."""
    with tempfile.TemporaryDirectory(prefix="rheos-soak-") as name, KafkaBroker() as broker:
        folder, brokers = Path(name), broker.address
        make_topics(brokers, {SOURCE: PARTITIONS, TARGET: PARTITIONS})
        sequences, delays = Sequences(), Delays()
        decode = msgspec.json.Decoder(Out).decode

        def take(messages: Sequence[Any], _: int) -> None:
            records = [decode(message.value()) for message in messages]
            for record in records:
                sequences.take(record)
            delays.take([record.sent_us for record in records])

        def is_out(record: Record) -> bool:
            return sequences.rows >= sum(record["confirmed"].values())

        reader = Committed(brokers, TARGET, PARTITIONS, take)
        killer = BrokerKiller(broker, settings.broker_every_s)
        killer.start()
        record, checkpoints = folder / "record.json", str(folder / "checkpoints")
        options = ["--rate", str(settings.rate_per_s), "--keys", str(settings.keys)]
        producer = [sys.executable, str(HERE / "soak_producer.py"), brokers, SOURCE, str(record)]
        job = [str(HERE / "soak_job.py"), "--parallelism", "2", "--checkpoint-dir", checkpoints]
        struck = strike(
            [*job, "--", brokers, SOURCE, TARGET],
            [*producer, *options, "--seed", str(settings.seed)],
            record,
            Strikes(settings.minutes * 60, settings.kill_every_s, settings.faults, settings.seed),
            is_out,
            quiet=killer.end,
        )
        reader.end()
        attempts = JobLog(open_store(checkpoints, make=False), JobId("soak")).read().attempt
    confirmed = {int(key): number for key, number in struck.record["confirmed"].items()}
    report, verdict = struck.report, sequences.verdict(confirmed)
    strikes = []
    for each in report.strikes:
        at_s = struck.began_up_s + each.at_s
        delay = delays.within(at_s, at_s + settings.kill_every_s)
        strikes.append({**asdict(each), "delay_s": delay and round(delay, 2)})
    back = [each.back_after_s for each in report.strikes if each.back_after_s is not None]
    return {
        "minutes": settings.minutes,
        "rate_per_s": settings.rate_per_s,
        "keys": settings.keys,
        "sent": sum(confirmed.values()),
        "kills": {kind: sum(each.fault is kind for each in report.strikes) for kind in Fault},
        "broker_kills_at_s": [round(at_s - struck.began_up_s, 1) for at_s in killer.kills_s],
        "restarts": attempts - 1,
        "runs_again_after_s": _median_and_max(back),
        "delay_s": round(statistics.median(delays.sample_s), 2),
        "delay_after_kill_s": _median_and_max([each["delay_s"] for each in strikes if each["delay_s"]]),
        "longest_silence_s": round(delays.longest_silence_s, 1),
        "verdict": asdict(verdict),
        "failure": report.failure,
        "ok": report.ok and verdict.ok,
        "strikes": strikes,
        "delays": [
            [at_s - int(struck.began_up_s), round(delay, 2)]
            for at_s, delay in sorted(delays.worst_s.items())
        ],
    }


def _median_and_max(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {"median": round(statistics.median(seconds), 2), "max": round(max(seconds), 2)}


def table(measurements: dict[str, Any]) -> str:
    """As Markdown."""
    verdict = measurements["verdict"]
    kinds = ", ".join(f"{n} {kind}" for kind, n in measurements["kills"].items() if n)
    rows = {
        "minutes": f"{measurements['minutes']:g}",
        "records sent, by the producer's own record": f"{measurements['sent']:,}",
        "records that came out, committed": f"{verdict['rows']:,}",
        "lost": f"{verdict['lost']:,}",
        "doubled": f"{verdict['doubled']:,}",
        "that nobody has sent": f"{verdict['foreign']:,}",
        "out of order within their key": f"{verdict['out_of_order']:,}",
        "miscounted": f"{verdict['miscounted']:,}",
        "kills": kinds or "none",
        "kills of the broker": f"{len(measurements['broker_kills_at_s'])}",
        "restarts of the job": f"{measurements['restarts']}",
        "all workers there again after, median / most": _seconds(measurements["runs_again_after_s"]),
        "a record's delay, median": f"{measurements['delay_s']:.2f} s",
        "the longest delay after a kill, median / most": _seconds(measurements["delay_after_kill_s"]),
        "the longest silence of the output": f"{measurements['longest_silence_s']:.1f} s",
    }
    return "\n".join(
        ["| | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows.items())]
    )


def _seconds(found: dict[str, float] | None) -> str:
    return "none" if found is None else f"{found['median']:.1f} / {found['max']:.1f} s"


def run(options: Options) -> dict[str, Any]:
    quick = Settings(minutes=1.0, kill_every_s=10.0)
    return soak(quick if options.quick else Settings(minutes=options.seconds / 60))


def show(results: dict[str, Any], plots: Plots) -> str:
    figure, (axes,) = panels(1, height=2.4)
    at, delay = zip(*results["delays"], strict=True)
    axes.plot([each / 60 for each in at], delay, color=BLUE, linewidth=1, label="longest delay")
    killed = [each["at_s"] / 60 for each in results["strikes"]]
    axes.plot(killed, [0] * len(killed), "|", color=GENERATOR, label="a worker or the driver is killed")
    titled(axes, "The longest delay of the records that came out in a second", "minutes", "s")
    axes.set_ylim(bottom=0)
    legend(figure)
    drawn = plots.save(figure, "soak", "The longest delay of records over time, and the kills")
    verdict = results["verdict"]
    wrong = ("lost", "doubled", "foreign", "out_of_order", "miscounted")
    is_right = (
        "just those that were sent came out, each once, in order and counted rightly"
        if results["ok"]
        else f"wrong are {', '.join(f'{verdict[kind]:,} ({kind})' for kind in wrong)}"
    )
    late = results["delay_after_kill_s"]
    says = f"Of {results['sent']:,} records and {sum(results['kills'].values())} kills: {is_right}."
    if late is not None:
        says += (
            f" A record took {results['delay_s']:.1f} s in the median, and "
            f"after a kill at the most {late['median']:.1f} s (median), {late['max']:.1f} s (all)."
        )
    return "\n\n".join((drawn, table(results), says))


EXPERIMENT = Experiment(
    name="soak",
    about="from Kafka to Kafka exactly once, a worker or the driver killed every 20 s: 20 minutes",
    run=run,
    show=show,
    seconds=20 * 60,
    rounds=1,
)


def main() -> int:
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.paper.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cli.add_argument("--minutes", type=float, default=20.0)
    cli.add_argument("--quick", action="store_true", help="one minute, a kill every 10 s")
    cli.add_argument("--rate", type=float, default=2_000, help="records a second")
    cli.add_argument("--keys", type=int, default=1_000)
    cli.add_argument("--kill-every", default="20s")
    cli.add_argument(
        "--faults", default="workers,driver", help="workers, freeze, driver; commas between"
    )
    cli.add_argument("--broker-every", help="kill the broker, too, every so often")
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--json", type=Path, metavar="FILE", help="where the measurements go")
    said = cli.parse_args()
    measurements = soak(
        Settings(
            minutes=1.0 if said.quick else said.minutes,
            rate_per_s=said.rate,
            keys=said.keys,
            kill_every_s=10.0 if said.quick else rh.duration(said.kill_every) / 1000,
            faults=Fault.parse(said.faults),
            broker_every_s=rh.duration(said.broker_every) / 1000 if said.broker_every else None,
            seed=said.seed,
        )
    )
    print(table(measurements))
    if said.json is not None:
        said.json.write_text(json.dumps(measurements, indent=1))
    if measurements["failure"]:
        print(f"the job failed: {measurements['failure']}")
    return 0 if measurements["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
