"""The programs of the documentation, and what each of their jobs must find.

A page's blocks are run in order, as one program. What its jobs collect, and the files that they leave,
is compared with goldens: worked out here from what the page says, without Rheos.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from rheos.cli.options import OPTIONS
from tests.equivalence.corpus.oracle import NEVER, Row, arrived, bare, by_window, quantile, result
from tests.equivalence.corpus.program import Golden, Rows, View
from tests.equivalence.corpus.sessions import by_session

ROOT = Path(__file__).parents[2]
AS_WRITTEN = "<!-- runs: as written -->"
BLOCK = re.compile(rf"^({AS_WRITTEN}\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

RUNTIMES = ("simulated", "continuous", "batch")

ELSEWHERE = {
    "docs/operating.md": "its jobs never end and are about one runtime: tests/docs/test_operating.py "
    "walks through it and checks every row",
    "docs/kafka.md": "its jobs read a real broker: tests/docs/test_kafka.py walks through it and "
    "checks every row",
    "docs/redis.md": "its jobs write a real server: tests/docs/test_redis.py runs them and looks there",
    "docs/postgres.md": "its job reads and writes a real server: tests/docs/test_postgres.py runs it "
    "and checks the rows",
    "docs/connectors.md": "its programs are modules and their tests: tests/docs/test_connectors.py "
    "runs them",
    "docs/state.md": "it makes and changes savepoints, and runs no job: tests/savepoints/test_page.py",
}
"""Pages with programs that are not run here, and why."""


@dataclass(frozen=True)
class Block:
    line: int
    """Of the page, above the block's first."""
    code: str
    as_written: bool


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block(text.count("\n", 0, found.start(2)), found[2], found[1] is not None)
        for found in BLOCK.finditer(text)
    ]


def pages() -> list[str]:
    """All pages that have programs."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found if "```python" in page.read_text()]


@dataclass(frozen=True)
class Ran:
    """A job of a page that has come to its end."""

    job: str
    collected: Mapping[str, pa.Table]


def run(page: str, runtime: str) -> list[Ran]:
    """Runs the page in the working directory. Blocks that are about one runtime run where the others
    are simulated, on the runtime that they name."""
    ran: list[Ran] = []
    execute = rh.Environment.execute

    def noted(env: rh.Environment, name: str = "job") -> rh.JobResult:
        done = execute(env, name)
        ran.append(Ran(name, done.collected))
        return done

    names: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rh.Environment, "execute", noted)
        for block in blocks(page):
            if block.as_written and runtime != "simulated":
                continue
            # Empty lines above it: so errors name the line of the page.
            code = compile("\n" * block.line + block.code, str(ROOT / page), "exec", dont_inherit=True)
            chosen = from_command({"runtime": None if block.as_written else runtime}, OPTIONS)
            with applied(Overrides((chosen,))):
                exec(code, names)
    return ran


@dataclass(frozen=True)
class Wanted:
    """What a job must find: in its collect sinks, and in the folders that it writes (all of `out`)."""

    collected: Mapping[str, Golden] = field(default_factory=dict)
    files: Mapping[str, Golden] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    as_written: bool = False
    """Whether it is of a block that is about one runtime."""


def files_in(folder: Path) -> pa.Table:
    """The rows that a job has published. Times in JSON are texts, and so are the values that the
    folders of a partitioned table are named by."""
    parts = [file for file in folder.glob("*=*/*.parquet") if not file.name.startswith(".")]
    if parts:
        named = [(file, *file.parent.name.split("=")) for file in parts]
        return pl.concat(
            [
                pl.read_parquet(file, hive_partitioning=False).with_columns(pl.lit(value).alias(name))
                for file, name, value in named
            ],
            how="diagonal",
        ).to_arrow()
    if list(folder.glob("*.parquet")):
        return pl.read_parquet(folder / "*.parquet").to_arrow()
    texts = [pa.input_stream(file).read() for file in sorted(folder.glob("*.jsonl*"))]
    lines = [pl.read_ndjson(text) for text in texts if text]
    rows = pl.concat(lines)
    return rows.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC")).to_arrow()


# --- README.md --------------------------------------------------------------------------------------


def readme() -> dict[str, Wanted]:
    i = pl.int_range(600, eager=True).alias("i")
    visits = pl.DataFrame({"i": i}).select(
        "i",
        country=pl.when(pl.col("i") % 3 > 0).then(pl.lit("NL")).otherwise(pl.lit("BE")),
        user=pl.col("i") % 50,
        window_start=datetime(2026, 1, 1, tzinfo=UTC) + pl.duration(minutes=pl.col("i") // 60),
    )
    per_minute = visits.group_by("country", "window_start").agg(
        window_end=pl.col("window_start").first() + timedelta(minutes=1),
        visits=pl.len().cast(pl.Int64),
        visitors=pl.col("user").n_unique().cast(pl.Int64),
    )
    return {"visits": Wanted({"per minute": per_minute})}


# --- docs/guide.md -----------------------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOG: list[Row] = [
    {
        "user": i % 7,
        "page": f"/p{i % 5}",
        "status": 500 if i % 11 == 0 else 200,
        "millis": i % 90,
        "at": NOON + timedelta(seconds=i - (400 if i == 700 else i % 3)),
    }
    for i in range(900)
]
ARRIVED = arrived(Rows(pa.Table.from_pylist(LOG), splits=1, bound="5s"))


def guide() -> dict[str, Wanted]:
    return {
        "functions": Wanted(
            {
                "segments": [{"user": row["user"], "name": row["page"][1:]} for row in LOG],
                "scores": [{"user": row["user"], "score": 1 / (1 + row["millis"])} for row in LOG],
            }
        ),
        "per key": Wanted(
            {"running": list(_totals()), "slowest so far": list(_slowest_rows())},
            # Which rows of a key come first is not the same in a batch; what is found at last is.
            views={
                "running": lambda found: (
                    found.sort("n").unique("user", keep="last").select("user", "n", "total")
                ),
                "slowest so far": lambda found: found.filter(
                    pl.col("millis") == pl.col("millis").max().over("page")
                ).unique(),
            },
        ),
        "pages": Wanted(files={"out/per-page": _per_page(), "out/late": bare([ARRIVED[700]])}),
        "sessions": Wanted({"sessions": list(_sessions())}),
        "moved": Wanted({"moved": _moved()}),
        "slowest": Wanted({"slowest": list(_slowest())}),
        "trouble": Wanted(
            {
                "trouble": list(_trouble(row for row in ARRIVED if row["ts"] > row["wm"])),
                "slow": [row for i, row in enumerate(LOG) if row["millis"] > 85 and i != 700],
                "too late": bare([ARRIVED[700]]),
            }
        ),
        "first visits": Wanted(
            {"first visits": list(_first_visits(row for row in ARRIVED if row["ts"] > row["wm"]))}
        ),
        "noteworthy": Wanted(
            files={"out/noteworthy": [row for row in LOG if row["status"] >= 500 or row["millis"] > 80]}
        ),
        "history first": Wanted({"by page": _history_first()}),
        "orders into a table": Wanted(
            files={
                "orders": [
                    {"day": f"2026-03-0{1 + n % 2}", "order": n, "total": n * 9.5} for n in range(100)
                ]
            },
            as_written=True,
        ),
        "large orders": Wanted(
            {"large orders": [{"order": n, "total": n * 9.5} for n in range(95, 100)]}, as_written=True
        ),
        "counting": Wanted(
            {"counts": [{"k": k, "n": n} for k in range(10) for n in range(1, 2001)]}, as_written=True
        ),
        "baskets": Wanted({"baskets": LOG}),
        "pages, as a batch": Wanted(
            {"pages": _per_five_minutes(), "late": bare([ARRIVED[700]])}, as_written=True
        ),
        "careful": Wanted(
            {
                "good": [
                    {
                        "user": 1,
                        "page": "/",
                        "status": 200,
                        "millis": 1,
                        "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
                    }
                ],
                "bad": [{"line": 2, "record": '{"user": "who?"}'}],
            },
            views={"bad": lambda found: found.select("line", "record")},
        ),
        "test": Wanted(
            {
                "trouble": [
                    {"user": 7, "failures": 2, "ended": False},
                    {"user": 7, "failures": 3, "ended": True},
                ]
            }
        ),
        # The page compares these two itself.
        "simulated": Wanted(as_written=True),
    }


def _totals() -> Iterable[Row]:
    for user in range(7):
        millis = [row["millis"] for row in LOG if row["user"] == user]
        yield {"user": user, "n": len(millis), "total": sum(millis)}


def _slowest_rows() -> Iterable[Row]:
    """Of each page the first of its slowest rows; they are minutes apart."""
    for page in sorted({row["page"] for row in LOG}):
        yield max((row for row in LOG if row["page"] == page), key=lambda row: row["millis"])


def _per_page() -> list[Row]:
    windows, _ = by_window(ARRIVED, ["page"], 300_000, 60_000, lateness=60_000)
    return [
        result(
            ["page"],
            key,
            300_000,
            visits=len(rows),
            visitors=len({row["user"] for row in rows}),
            p95=quantile([row["millis"] for row in rows], 0.95),
        )
        for key, rows in windows.items()
    ]


def _per_five_minutes() -> list[Row]:
    windows, _ = by_window(ARRIVED, ["page"], 300_000)
    return [result(["page"], key, 300_000, visits=len(rows)) for key, rows in windows.items()]


def _moved() -> list[Row]:
    """Two hours later; all of it lies in one hour, so nothing is late."""
    two_hours = 2 * 3_600_000
    rows = [{**row, "ts": row["ts"] + two_hours, "wm": NEVER} for row in ARRIVED]
    windows, _ = by_window(rows, ["page"], 3_600_000)
    return [result(["page"], key, 3_600_000, visits=len(of)) for key, of in windows.items()]


def _history_first() -> list[Row]:
    """The log up to the switch, and what the live stream brings from there on; nothing is late."""
    live = [{"page": f"/p{s % 5}", "ts": ARRIVED[0]["ts"] + (500 + s) * 1000} for s in range(400)]
    switch = ARRIVED[0]["ts"] + 600_000
    rows = [row for row in ARRIVED if row["ts"] < switch] + [row for row in live if row["ts"] >= switch]
    windows, _ = by_window([{**row, "wm": NEVER} for row in rows], ["page"], 300_000)
    return [result(["page"], key, 300_000, n=len(of)) for key, of in windows.items()]


def _sessions() -> Iterable[Row]:
    for (user,), start, end, rows in by_session(ARRIVED, ["user"], 600_000)[0]:
        pages = len({row["page"] for row in rows})
        yield result(["user"], (user, start), end - start, visits=len(rows), pages=pages)


def _slowest() -> Iterable[Row]:
    windows, _ = by_window(ARRIVED, ["page"], 600_000)
    for (page, _), rows in windows.items():
        in_order = sorted(rows, key=lambda row: (row["ts"], *bare([row])[0].values()))
        slowest = sorted(in_order, key=lambda row: -row["millis"])[:3]
        yield {"page": page, "users": [row["user"] for row in slowest]}


def _trouble(rows: Iterable[Row]) -> Iterable[Row]:
    """Failures of a user with no more than two minutes between one and the next belong together."""
    failed: dict[int, list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["ts"]):
        if row["status"] >= 500:
            failed[row["user"]].append(row["ts"])
    for user, times in failed.items():
        count = 0
        for place, ts in enumerate(times):
            count += 1
            if count == 2:
                yield {"user": user, "failures": 2, "ended": False}
            if place + 1 == len(times) or times[place + 1] > ts + 120_000:
                if count >= 2:
                    yield {"user": user, "failures": count, "ended": True}
                count = 0


def _first_visits(rows: Iterable[Row]) -> Iterable[Row]:
    """Of a user's visits to a page those with none of these in the five minutes before."""
    last: dict[tuple[int, str], int] = {}
    for row in sorted(rows, key=lambda row: row["ts"]):
        visit = row["user"], row["page"]
        if visit not in last or row["ts"] >= last[visit] + 300_000:
            last[visit] = row["ts"]
            yield from bare([row])


GOLDENS: Mapping[str, Callable[[], dict[str, Wanted]]] = {"README.md": readme, "docs/guide.md": guide}
