"""Batch programs against the same written by hand in PySpark, in turns, on generated Parquet.

    python benchmarks/batch.py                 # about 3 GB, three rounds
    python benchmarks/batch.py --quick         # 200 MB, one round
    python benchmarks/batch.py --gb 1 --only hourly-user process

Each side is a process with a Spark session of its own, of equal settings (local[2], the same number of
shuffle partitions, adaptive execution on). They run in turns, A B and then B A, and both write Parquet.
Before anything is measured each program runs once on a few rows. The rows of both sides are compared:
as many, and the same, whatever their order.

A ratio is how many times as long Rheos takes; below 1 it is faster. The CPU share says how much of its
cores a run had: one well below that of its neighbours is the machine's doing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median

import batch_input
import polars as pl
from batch_programs import WORK
from batch_side import RHEOS

from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell

HERE = Path(__file__).parent
WARM_UP_ROWS = 20_000
WARM_UP_USERS = 100

HEADER = (
    "| program | written with | s | rows/s | CPU share | CPU s | Rheos takes | may take |",
    "|---|---|---:|---:|---:|---:|---:|---:|",
)


@dataclass
class Figures:
    """The runs of one program on one side."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


class Side:
    """A process with a Spark session."""

    def __init__(self, given: argparse.Namespace, folder: Path, name: str) -> None:
        self._log = open(folder / f"{name}.log", "wb")  # noqa: SIM115 - it lives as long as the side.
        local = folder / f"{name}-spark"
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "batch_side.py"),
                str(given.cores),
                str(given.partitions),
                local,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={
                **os.environ,
                # Spark's workers import the programs, too.
                "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )

    def run(self, **order: object) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            log = Path(self._log.name).read_text(errors="replace")
            sys.exit(f"{order['work']} on {order['side']} has failed:\n{log[-6000:]}")
        measurements: dict[str, float] = json.loads(answer)
        return measurements

    def close(self) -> None:
        self._process.communicate()
        self._log.close()


def content(name: str, folder: Path) -> dict[str, int]:
    """What the program's files hold, whatever the order of their rows: how many, and a sum over their
    hashes."""
    rows = WORK[name].compared(pl.scan_parquet(str(folder / "**/*.parquet")))
    plain = [_plain(name, type) for name, type in sorted(rows.collect_schema().items())]
    hashed = pl.struct(plain).hash(1) % (1 << 31)
    found = rows.select(rows=pl.len(), checksum=hashed.sum()).collect(engine="streaming")
    return {name: int(found[name][0]) for name in found.columns}


def _plain(name: str, type: pl.DataType) -> pl.Expr:
    """The column by its values alone: files of the two sides may have other types for the same."""
    if type.is_temporal():
        return pl.col(name).dt.epoch("us")
    return pl.col(name).cast(pl.Float64) if type.is_numeric() else pl.col(name)


class Comparison:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given = given
        self.folder = folder
        self.names = [name for name in WORK if given.only is None or name in given.only]
        self.measurements: dict[tuple[str, str], Figures] = {}
        self.contents: dict[str, dict[str, int]] = {}
        self.made = batch_input.Input(
            given.rows or batch_input.rows_of(given.gb), given.keys, given.seed
        )
        self.sides = {name: Side(given, folder, name) for name in (RHEOS, "by-hand")}

    def run(self) -> None:
        began = time.perf_counter()
        size = batch_input.write(self.made, self.folder / "events")
        took = time.perf_counter() - began
        _say(f"{self.made.rows:,} rows in {size / 1e9:.2f} GB of Parquet, made in {took:.0f} s")
        few = batch_input.Input(WARM_UP_ROWS, WARM_UP_USERS)
        batch_input.write(few, self.folder / "few")
        for name in self.names:
            for writing in self._writings(name):
                self._once(name, writing, "few", few)
                _say(f"warmed up: {name}, {writing}")
        for round_ in range(self.given.rounds):
            for name in self.names:
                for writing in self._writings(name, backwards=round_ % 2 == 1):
                    took_s = self._measure(name, writing)
                    _say(
                        f"round {round_ + 1} of {self.given.rounds}: {name}, {writing}: {took_s:.1f} s"
                    )

    def _writings(self, name: str, backwards: bool = False) -> Iterator[str]:
        found = [RHEOS, *(hand for hand in WORK[name].by_hand if hand not in self.given.leave_out)]
        return reversed(found) if backwards else iter(found)

    def _once(self, name: str, writing: str, data: str, made: batch_input.Input) -> dict[str, float]:
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        return self.sides[RHEOS if writing == RHEOS else "by-hand"].run(
            work=name,
            side=writing,
            data=str(self.folder / data),
            out=str(out),
            partitions=self.given.partitions,
            disorder_ms=made.disorder_ms,
        )

    def _measure(self, name: str, writing: str) -> float:
        took = self._once(name, writing, "events", self.made)
        measurements = self.measurements.setdefault((name, writing), Figures())
        measurements.seconds.append(took["seconds"])
        measurements.cpu_s.append(took["cpu_s"])
        found = content(name, self.folder / "out")
        expected = self.contents.setdefault(name, found)
        if found != expected:
            sys.exit(f"{name}: {writing} has written {found}, and another before {expected}")
        return took["seconds"]

    def close(self) -> None:
        for side in self.sides.values():
            side.close()

    # --- what is printed ----------------------------------------------------------------------------

    def table(self) -> Iterator[str]:
        yield from HEADER
        for (name, writing), measurements in self._in_order():
            seconds = cell(measurements.seconds, "{:.1f}".format)
            rates = cell([self.made.rows / each for each in measurements.seconds], "{:,.0f}".format)
            pairs = list(zip(measurements.cpu_s, measurements.seconds, strict=True))
            share = cell([c / s / self.given.cores for c, s in pairs], "{:.0%}".format)
            cpu = cell(measurements.cpu_s, "{:.0f}".format)
            ratio = "" if writing == RHEOS else ratio_cell(self._pairs(name, writing))
            target = "" if writing == RHEOS else f"{WORK[name].target:g} x"
            yield (
                f"| {name} | {writing} | {seconds} | {rates} | {share} | {cpu} | {ratio} | {target} |"
            )

    def as_json(self) -> str:
        return json.dumps(
            {
                "rows": self.made.rows,
                "keys": self.made.keys,
                "partitions": self.given.partitions,
                "programs": [
                    {
                        "program": name,
                        "writing": writing,
                        **asdict(measurements),
                        **self.contents[name],
                        **({} if writing == RHEOS else {"ratio": self._ratio(name, writing)}),
                    }
                    for (name, writing), measurements in self._in_order()
                ],
            }
        )

    def _in_order(self) -> Iterator[tuple[tuple[str, str], Figures]]:
        every = chain.from_iterable(((n, w) for w in self._writings(n)) for n in self.names)
        return ((pair, self.measurements[pair]) for pair in every)

    def _ratio(self, name: str, writing: str) -> float:
        """Return the median over the rounds: in one, both sides had the same neighbours."""
        return median(ours / theirs for ours, theirs in self._pairs(name, writing))

    def _pairs(self, name: str, writing: str) -> list[tuple[float, float]]:
        """Return the seconds of both sides, for each round."""
        ours, theirs = (self.measurements[name, each].seconds for each in (RHEOS, writing))
        return list(zip(ours, theirs, strict=True))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gb", type=float, default=3.0, help="size of the Parquet files (3)")
    parser.add_argument("--rows", type=int, help="how many rows, in place of a size")
    parser.add_argument("--keys", type=int, default=100_000, help="how many users (100,000)")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=8, help="of every shuffle (8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=WORK, help=", ".join(WORK))
    parser.add_argument("--leave-out", nargs="+", metavar="NAME", default=[], help="ways of writing")
    parser.add_argument("--quick", action="store_true", help="200 MB, 10,000 users, one round")
    parser.add_argument("--folder", type=Path, help="where files go; a temporary one otherwise")
    parser.add_argument("--json", action="store_true", help="prints one JSON object")
    given = parser.parse_args()
    if given.quick:
        given.gb, given.keys, given.rounds = 0.2, min(given.keys, 10_000), 1
    if given.rounds < 1 or given.keys < 1 or given.gb <= 0:
        parser.error("there is nothing to run")
    return given


def main() -> None:
    given = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="rheos-batch-", dir=given.folder))
    comparison = Comparison(given, folder)
    try:
        comparison.run()
        print(comparison.as_json() if given.json else "\n".join(comparison.table()))
    finally:
        comparison.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
