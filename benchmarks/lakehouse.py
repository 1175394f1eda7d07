"""Changes of a database into a lakehouse, while processes are killed.

A client changes a table of MariaDB without pause. One job follows it into a table of Iceberg and one
of Delta. Meanwhile workers, the driver and the database are killed. At the end DuckDB compares the rows
of both tables with those of the database. It starts its own server on loopback, and ends it.

lines:
    changes              rows that the client has inserted, updated or deleted
    kills                number of each, and the seconds until the job had completed a checkpoint again
    iceberg, delta       rows of the table, and the differences from the database
    behind               seconds from the last change until both tables had it

usage: python -m benchmarks.lakehouse [--changes 100000] [--per-s 400] [--rows 20000] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lakehouse_orders import Copy, Orders, copies, session, written
from rheos.ops.chaos.plan import Fault
from rheos.ops.chaos.struck_servers import StruckServer
from rheos.testing import chaos
from rheos.testing.servers import MariadbServer

KILLED = (Fault.WORKERS, Fault.DRIVER, Fault.SERVER)
_LOOK_EVERY_S = 5.0
_EQUAL_WITHIN_S = 900.0


class KilledDatabase(StruckServer):
    """The server: a fault kills it, and its end starts it again."""

    name = "the database, killed"

    def __init__(self, server: MariadbServer) -> None:
        self._server = server

    def strike(self, fault: Fault) -> None:
        self._server.kill()

    def heal(self) -> None:
        self._server.start()


@dataclass(frozen=True)
class Outcome:
    """Result of a run."""

    asked: int
    changes: int
    report: chaos.Report
    copies: Mapping[str, Copy]
    behind_s: float

    @property
    def kills(self) -> Counter[Fault]:
        return Counter(strike.fault for strike in self.report.strikes)

    @property
    def is_right(self) -> bool:
        """Whether the tables equal the database, although each kind of process was killed."""
        equal = all(copy.is_equal for copy in self.copies.values())
        killed = all(self.kills[fault] for fault in KILLED)
        return self.report.ok and equal and killed and self.changes >= self.asked

    def lines(self) -> list[str]:
        """Return the lines to print."""
        shown = [f"{self.changes:,} changes", *self.report.summary()]
        for name, copy in self.copies.items():
            shown.append(f"{name:<8} {copy.rows:,} rows, {copy.missing} missing, {copy.extra} extra")
        return [*shown, f"both equal the database {self.behind_s:.1f} s after the last change"]


class _Drained:
    """Whether the client has ended and both tables equal the database, or time is up."""

    def __init__(
        self,
        client: threading.Thread,
        compare: Callable[[], Mapping[str, Copy]],
        log: Callable[[str], object],
    ) -> None:
        self._client, self._compare, self._log = client, compare, log
        self._ended_at: float | None = None
        self._look_at = 0.0
        self.behind_s = 0.0
        self.found: Mapping[str, Copy] = {}

    def __call__(self) -> bool:
        now = time.monotonic()
        if self._client.is_alive() or now < self._look_at:
            return False
        self._ended_at = self._ended_at or now
        self.found = self._compare()
        self.behind_s = now - self._ended_at
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        left = ", ".join(f"{name} lacks {copy.missing:,}" for name, copy in self.found.items())
        self._log(f"{self.behind_s:8.1f} s  after the last change: {left}")
        equal = all(copy.is_equal for copy in self.found.values())
        return equal or self.behind_s > _EQUAL_WITHIN_S


def run(
    folder: Path,
    *,
    changes: int,
    per_s: float,
    rows: int,
    seed: int = 0,
    log: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Run the job with kills while the table is changed, and compare the tables at the end.

    Args:
        folder: an empty folder for tables and checkpoints.
        changes: minimum number of changed rows.
        per_s: changes per second.
        rows: number of rows that exist at first.
        seed: seed of the rows and the kills.
        log: receives a line for each kill.
    """
    with MariadbServer() as server:
        orders, stopped = Orders(server.url, rows, seed), threading.Event()
        orders.create()
        client = threading.Thread(target=orders.change, args=(changes, per_s, stopped), daemon=True)
        drained = _Drained(client, lambda: copies(server.url, folder), log)
        plan = chaos.Plan(
            [sys.executable, "-m", "benchmarks.lakehouse_job", str(folder)],
            faults=frozenset(KILLED),
            kill_every_s=8,
            for_s=changes / per_s,
            runs=client.start,
            drained=drained,
            progress=chaos.newest_checkpoint,
            servers=[KilledDatabase(server)],
            seed=seed,
            freeze_s=10,
            start_within_s=400,
            env={"SHOP": server.url},
        )
        try:
            report = chaos.run(plan, log)
        finally:
            stopped.set()
        with session(server.url) as cursor:
            _, changed = written(cursor)
        return Outcome(changes, changed, report, copies(server.url, folder), drained.behind_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--per-s", type=float, default=400)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), **vars(given), log=lambda line: print(line, flush=True))
    print("\n".join(outcome.lines()))
    sys.exit(0 if outcome.is_right else 1)


if __name__ == "__main__":
    main()
