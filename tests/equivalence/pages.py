"""The programs of the documentation, and the expected results of their jobs.

The blocks of a page run in order, as one program. The rows that its jobs collect, and the files that
they leave, are compared with goldens, which this module computes from the page's text without Rheos.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.overrides import Overrides, applied
from rheos.api.partial_settings import from_command
from tests.equivalence.corpus.changes import in_the_end
from tests.equivalence.corpus.oracle import NEVER, Row, arrived, bare, by_window, quantile, result
from tests.equivalence.corpus.program import Golden, Rows, View
from tests.equivalence.corpus.sessions import by_session
from tests.equivalence.printed import captured

ROOT = Path(__file__).parents[2]
AS_WRITTEN = "<!-- runs: as written -->"
BLOCK = re.compile(rf"^({AS_WRITTEN}\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

RUNTIMES = ("simulated", "continuous", "batch")

ELSEWHERE = {
    "docs/quickstart.md": "it is a walk: tests/docs/test_quickstart.py runs it, step by step",
    "docs/operating.md": "its jobs never end and are about one runtime: tests/docs/test_operating.py "
    "walks through it and checks every row",
    "docs/incidents.md": "its job fails: tests/docs/test_incidents.py turns its rows into tests",
    "docs/kafka.md": "its jobs read a real broker: tests/docs/test_kafka.py walks through it and "
    "checks every row",
    "docs/delta.md": "one of its programs queries what another writes: tests/docs/test_delta.py",
    "docs/lakehouse.md": "some of its programs query what others write: tests/docs/test_lakehouse.py",
    "docs/iceberg.md": "one of its programs queries what another writes: tests/docs/test_iceberg.py",
    "docs/redis.md": "its jobs write a real server: tests/docs/test_redis.py runs them and looks there",
    "docs/mqtt.md": "its job never ends: tests/docs/test_mqtt.py runs it on a real broker",
    "docs/rabbitmq.md": "its job never ends: tests/docs/test_rabbitmq.py runs it on a real server",
    "docs/clickhouse.md": "its job never ends: tests/docs/test_clickhouse.py runs it on an engine",
    "docs/sqs.md": "its job never ends: tests/docs/test_sqs.py runs it on an emulator",
    "docs/kinesis.md": "its job reads and writes an emulator: tests/docs/test_kinesis.py runs it",
    "docs/mongodb.md": "its job never ends: tests/docs/test_mongodb.py runs it on a server",
    "docs/nats.md": "its job reads and writes a real server: tests/docs/test_nats.py runs it",
    "docs/pulsar.md": "its job reads and writes a real server: tests/docs/test_pulsar.py runs it",
    "docs/postgres.md": "its job reads and writes a real server: tests/docs/test_postgres.py runs it "
    "and checks the rows",
    "docs/sql-databases.md": "its job writes a file: tests/docs/test_sql_databases.py runs it",
    "docs/duckdb.md": "its job writes a file: tests/docs/test_duckdb.py runs it",
    "docs/lancedb.md": "its job writes a folder: tests/docs/test_lancedb.py runs it",
    "docs/mysql.md": "its job reads a real server: tests/docs/test_mysql.py runs it",
    "docs/formats.md": "its jobs write and read a real broker: tests/docs/test_formats.py runs them",
    "docs/coming-from.md": "its programs are held to timelines: tests/docs/test_coming_from.py "
    "runs them",
    "docs/connectors.md": "its programs are modules and their tests: tests/docs/test_connectors.py "
    "runs them",
    "docs/cookbook.md": "its recipes are held to timelines: tests/docs/test_cookbook.py runs them",
    "docs/testing.md": "its programs are tests: tests/docs/test_testing.py runs them",
    "docs/decimals.md": "it runs no job: tests/core/protocol/test_annotations.py",
    "docs/state-reads.md": "its job never ends: tests/docs/test_state_reads.py walks through it",
    "docs/views.md": "its job never ends: tests/docs/test_views.py walks through it",
    "docs/web.md": "its jobs never end: tests/docs/test_web.py sends them lines and requests",
    "docs/stores.md": "its jobs write real servers: tests/docs/test_stores.py runs them",
    "docs/state.md": "it changes savepoints, and runs no job: tests/ops/savepoints/test_page.py",
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
    """Return all pages that have programs."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found if "```python" in page.read_text()]


@dataclass(frozen=True)
class Ran:
    """A job of a page that has ended."""

    job: str
    collected: Mapping[str, pa.Table]


def run(page: str, runtime: str, printed: list[str] | None = None) -> list[Ran]:
    """Run the page in the working directory. Blocks about one runtime run on it while the others are
    simulated. `printed` receives the output of each block."""
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
            # Empty lines above it make errors name the line of the page.
            code = compile("\n" * block.line + block.code, str(ROOT / page), "exec", dont_inherit=True)
            chosen = from_command({"runtime": None if block.as_written else runtime})
            with applied(Overrides((chosen,))), captured([] if printed is None else printed):
                exec(code, names)
    return ran


@dataclass(frozen=True)
class Wanted:
    """Expected rows of a job: in its collect sinks, and in the folders that it writes (all of
    `out`)."""

    collected: Mapping[str, Golden] = field(default_factory=dict)
    files: Mapping[str, Golden] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    as_written: bool = False
    """Whether it is of a block that is about one runtime."""


def files_in(folder: Path) -> pa.Table:
    """Return the rows that a job has published. Times in JSON are strings, and so are the values in
    folder names of a partitioned table."""
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
    """Return the golden; the click at second 50 arrives after one at 130, which is past the first
    minute and its delay of 30 s."""
    minutes = [("home", 0, 2), ("cart", 0, 1), ("help", 1, 1), ("cart", 2, 1)]
    found = [result(["page"], (page, minute * 60_000), 60_000, clicks=n) for page, minute, n in minutes]
    return {"clicks": Wanted({"per minute": found, "late": [{"page": "home", "at": 50_000}]})}


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
            # The first rows of a key may differ in a batch; the final result does not.
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
        "slowest": Wanted({"slowest": list(_slowest())}),
        "trouble": Wanted(
            {
                "trouble": list(_trouble(row for row in ARRIVED if row["ts"] > row["wm"])),
                "slow": [row for i, row in enumerate(LOG) if row["millis"] > 85 and i != 700],
                "too late": bare([ARRIVED[700]]),
            }
        ),
        "noteworthy": Wanted(
            files={"out/noteworthy": [row for row in LOG if row["status"] >= 500 or row["millis"] > 80]}
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
    }


def _totals() -> Iterable[Row]:
    for user in range(7):
        millis = [row["millis"] for row in LOG if row["user"] == user]
        yield {"user": user, "n": len(millis), "total": sum(millis)}


def _slowest_rows() -> Iterable[Row]:
    """Return the first of each page's slowest rows; they are minutes apart."""
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


def _history_first() -> list[Row]:
    """Return the log up to the switch, then the rows of the live stream; nothing is late."""
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
    """Group failures of a user that are at most two minutes apart."""
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


# --- pages besides the guide
# ----------------------------------------------------------------------------


def files() -> dict[str, Wanted]:
    failed = [row for row in LOG if row["status"] >= 500]
    return {"failed visits": Wanted(files={"out/failed": failed})}


def history() -> dict[str, Wanted]:
    return {
        "history first": Wanted({"by page": _history_first()}),
    }


def tables() -> dict[str, Wanted]:
    return {
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
    }


def restarts() -> dict[str, Wanted]:
    visits = [{"user": i % 7, "page": f"/p{i % 5}", "millis": i % 90} for i in range(900)]
    return {
        "counting": Wanted(
            {"counts": [{"k": k, "n": n} for k in range(10) for n in range(1, 2001)]}, as_written=True
        ),
        "baskets": Wanted({"baskets": visits}),
    }


# --- docs/decimals.md -------------------------------------------------------------------------------


def decimals() -> dict[str, Wanted]:
    lines = [
        {"item": "tea", "of three": Decimal("7.50"), "per gram": Decimal("0.02")},
        {"item": "cup", "of three": Decimal("23.85"), "per gram": None},
    ]
    return {"lines": Wanted({"lines": lines})}


# --- docs/aggregates.md -----------------------------------------------------------------------------


def aggregates() -> dict[str, Wanted]:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    window = {"window_start": start, "window_end": start + timedelta(minutes=1)}
    home = {
        "route": "/",
        **window,
        "calls": 3,
        # The quantile of 12, 15 and 300 is about 109.
        "spread": math.sqrt((97**2 + 94**2 + 191**2) / 3),
        "slowest": [{"user": "bo", "ms": 300}, {"user": "eve", "ms": 15}],
        "users": ["ada", "eve", "bo"],
        "p90": 15 + 0.8 * 285,
        "about": [15, 15],
        "visitors": 3,
        "slow_share": 1 / 3,
    }
    buy = {
        "route": "/buy",
        **window,
        "calls": 2,
        "spread": 10.0,
        "slowest": [{"user": "bo", "ms": 90}, {"user": "ada", "ms": 70}],
        "users": ["bo", "ada"],
        "p90": 88.0,
        "about": [70, 70],
        "visitors": 2,
        "slow_share": 1.0,
    }
    # It is within 1 % of the quantile: rounded to an integer, both are equal.
    about = pl.col("about").list.eval(pl.element().round().cast(pl.Int64))
    views = {"routes": lambda found: found.with_columns(about)}
    return {"routes": Wanted({"routes": [home, buy]}, views=views)}


# --- docs/connected.md --------------------------------------------------------------------------------


def connected() -> dict[str, Wanted]:
    orders = [(i, 10 * i) for i in range(12)]
    payments = {i: 10 * i - i % 2 for i in range(8)}
    entries = [("order", -amount) for _, amount in orders] + [("payment", n) for n in payments.values()]
    judged = [(i, name) for i, n in orders for name, most in (("large", 70), ("huge", 90)) if n > most]
    return {
        "two streams": Wanted(
            {
                "settled": [{"order": i, "open": n - payments.get(i, 0)} for i, n in orders],
                "paid": [{"order": i, "after_ms": 2 * i * 60_000} for i in payments],
                "late payments": [],
                "entries": [{"what": what, "amount": amount} for what, amount in entries],
                "judged": [{"order": i, "name": name} for i, name in judged],
                "above": [{"order": i, "limit": 70} for i, n in orders if n > 70],
                "erased": [
                    {"user": "bo", "visits": 1, "late": False},
                    {"user": "ada", "visits": 2, "late": True},
                ],
                "pages": [{"orders": [i, i + 1, i + 2]} for i in range(0, 12, 3)],
            }
        )
    }


# --- docs/iterations.md -------------------------------------------------------------------------------


def iterations() -> dict[str, Wanted]:
    labels = [{"node": node, "label": 1 if node < 7 else 7} for node in (1, 2, 3, 4, 5, 7, 8, 9)]
    return {
        "loops": Wanted(
            {
                "labels": labels,
                "steps": [{"centre": c, "n": n} for c in (0, 1) for n in range(2, 22)],
                "eighths": [{"n": n / 8, "round": 2} for n in (8.0, 20.0)],
            },
            views={"labels": lambda found: found.sort("label").unique("node", keep="first")},
            as_written=True,
        )
    }


# --- docs/joins.md -----------------------------------------------------------------------------------


def joins() -> dict[str, Wanted]:
    noon = 1_767_268_800_000
    orders = [
        {"id": i, "customer": i % 7, "sum": 10 + i % 5, "at": noon + i * 1000} for i in range(600)
    ]
    payments = {i: i + i % 300 for i in range(600) if i % 10}
    found: dict[str, Golden] = {
        "paid": map(_paid, orders),
        "priced": map(_priced, orders),
        "in one window": _in_one_window(orders, payments),
        "open orders": _open_orders(orders, payments),
        "states": [
            {
                **order,
                "order_id": order["id"] if order["id"] in payments else None,
                "method": ["cash", "card"][order["id"] % 2] if order["id"] in payments else None,
            }
            for order in orders
        ],
        "reduced": [
            {**order, "name": name, "off": {12: 0.1, 14: 0.2}.get(order["sum"])}
            for order in orders
            for number, name in enumerate(["ada", "bo", "cy", "di", "eve"])
            if number == order["customer"]
        ],
    }
    return {job: Wanted({job: rows}, views={"states": in_the_end}) for job, rows in found.items()}


def patterns() -> dict[str, Wanted]:
    noon = 1_767_268_800_000
    guessed = []
    for user in range(3):
        tries, place = list(range(user, 120, 3)), 0
        while place + 3 < len(tries):
            if [n % 7 == 0 for n in tries[place : place + 4]] == [False, False, False, True]:
                numbers = {"first": tries[place], "last": tries[place + 3]}
                guessed.append({"user": f"u{user}", "tries": 3, **numbers})
                place += 4
            else:
                place += 1
    placed = {i // 2: noon + i * 1000 for i in range(0, 80, 2)}
    paid = [i // 2 for i in range(1, 80, 2) if i % 10 != 7]
    prices = [[5, 6, 7, 3, 8, 9, 2][i % 7] + i % 2 for i in range(60)]
    rising = [
        {"low": noon + i * 1000, "up": noon + (i + 2) * 1000}
        for i in range(58)
        if prices[i] < 5 and prices[i] < prices[i + 1] < prices[i + 2]
    ]
    unpaid = [{"order": o, "since": since} for o, since in placed.items() if o not in paid]
    return {
        "logins": Wanted({"guessed": guessed}),
        "orders": Wanted({"paid": [{"order": order} for order in paid], "unpaid": unpaid}),
        "prices": Wanted({"rising": rising}),
    }


def _in_one_window(orders: Sequence[Row], payments: Mapping[int, int]) -> Iterable[Row]:
    """Return payments by their second, 120 of them in a window."""
    noon = orders[0]["at"]
    for order in orders:
        i = order["id"]
        paid = {"order_id": i, "method": "card" if i % 2 else "cash"}
        at = payments.get(i)
        if at is not None:
            paid["at_paid"] = noon + at * 1000
        if at is not None and at // 120 == i // 120:
            yield result([], (noon + i // 120 * 120_000,), 120_000, **order, **paid)
            continue
        nothing = {"order_id": None, "method": None, "at_paid": None}
        yield result([], (noon + i // 120 * 120_000,), 120_000, **order, **nothing)
        if at is not None:
            nobody = dict.fromkeys(order)
            yield result([], (noon + at // 120 * 120_000,), 120_000, **nobody, **paid)


def _open_orders(orders: Sequence[Row], payments: Mapping[int, int]) -> Iterable[Row]:
    for window in range(8):
        left = [order for order in orders if order["id"] // 120 == window]
        paid = {i for i, at in payments.items() if at // 120 == window}
        if left or paid:
            due = sum(order["sum"] for order in left if order["id"] not in paid)
            yield {"until": orders[0]["at"] + (window + 1) * 120_000, "open": due}


def _paid(order: Row) -> Row:
    i = order["id"]
    if i % 10 == 0 or i % 300 > 120:
        return {**order, "order_id": None, "method": None, "at_paid": None}
    method = "card" if i % 2 else "cash"
    return {**order, "order_id": i, "method": method, "at_paid": order["at"] + i % 300 * 1000}


def _priced(order: Row) -> Row:
    """Return the order with its price, which applies to one of five sums; there is a new one every
    17 s."""
    there = [j for j in range(30) if j % 5 == order["id"] % 5 and j * 17 <= order["id"]]
    if not there:
        return {**order, "price": None, "since": None}
    since = order["at"] - order["id"] * 1000 + there[-1] * 17_000
    return {**order, "price": there[-1], "since": since}


# --- docs/functions.md -------------------------------------------------------------------------------


def functions() -> dict[str, Wanted]:
    orders = [(n, ("gold", "silver", "none")[n % 3]) for n in range(300)]
    points = {"gold": 3, "silver": 2, "none": 1}
    scores = [{"order": n, "points": points[tier]} for n, tier in orders]
    return {"orders": Wanted({"scores": scores})}


def asynchronous() -> dict[str, Wanted]:
    cents = [{"order": n, "cents": None if n == 13 else 100 * (n % 50)} for n in range(300)]
    return {"conversion": Wanted({"converted": cents})}


def partitioning() -> dict[str, Wanted]:
    return {"partitions": Wanted({"dealt": [{"order": n} for n in range(300)]})}


def watermarks() -> dict[str, Wanted]:
    """Return the golden: ten rows of two pages, two hours later."""
    noon = (NOON - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    hours = [result(["page"], (page, noon + 2 * HOUR), HOUR, visits=5) for page in ("/p0", "/p1")]
    return {"moved": Wanted({"moved": hours})}


def keyed_state() -> dict[str, Wanted]:
    visits = [("ada", "/", 0), ("bo", "/", 30), ("ada", "/buy", 200), ("ada", "/", 400)]
    rows = [{"user": u, "page": page, "at": NOON + timedelta(seconds=s)} for u, page, s in visits]
    return {"first visits": Wanted({"first visits": rows})}


# --- docs/vectorised.md ------------------------------------------------------------------------------


def vectorised() -> dict[str, Wanted]:
    """Return the golden; the user whose payment was left out signs out while shopping."""
    alerts = [{"user": n % 9, "state": "shopping", "kind": "sign_out"} for n in range(0, 900, 100)]
    wanted = Wanted({"alerts": alerts})
    return {"validate": wanted, "validate in Arrow": wanted, "validate each": wanted}


# --- docs/windows.md ---------------------------------------------------------------------------------

FIVE = 300_000
HOUR = 12 * FIVE
SOLD: list[Row] = [
    {
        "shop": "ulm" if i % 3 else "rom",
        "price": float(i % 40),
        "ts": (NOON - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1) + i * 1000,
        "wm": NEVER,
    }
    for i in range(600)
]


def windows() -> dict[str, Wanted]:
    fives, _ = by_window(SOLD, ["shop"], FIVE)
    spreads, early, large, priced, shifts = [], [], [], [], []
    for (shop, start), rows in fives.items():
        prices = [row["price"] for row in rows]
        low, high = min(prices), max(prices)
        spreads.append({"shop": shop, "until": start + FIVE, "low": low, "high": high})
        key = shop, start
        early += [result(["shop"], key, FIVE, n=n) for n in (*range(50, len(rows) + 1, 50), len(rows))]
        third = [at for at, price in enumerate(prices, 1) if price > 35][2]
        large.append(result(["shop"], key, FIVE, n=third))
        priced.append(result(["shop"], key, FIVE, least=min(price for price in prices if price)))
        work = sum(row["ts"] - start < 240_000 for row in rows)
        shifts.append(result(["shop"], key, 240_000, n=work))
    growing = []
    for (shop, start), rows in by_window(SOLD, ["shop"], 2 * FIVE)[0].items():
        for size in range(120_000, 2 * FIVE + 1, 120_000):
            total = sum(row["price"] for row in rows if row["ts"] < start + size)
            growing.append(result(["shop"], (shop, start), size, total=total))
    hundreds, sixties, own_gaps = [], [], []
    for shop in ("ulm", "rom"):
        of_shop = [row for row in SOLD if row["shop"] == shop]
        prices = [row["price"] for row in of_shop]
        for size, totals in ((100, hundreds), (60, sixties)):
            begins = range(0, len(prices) - size + 1, size)
            totals += [{"shop": shop, "total": sum(prices[begin : begin + size])} for begin in begins]
        start, end, n = of_shop[0]["ts"], of_shop[0]["ts"], 0
        for row in of_shop:
            if row["ts"] > end:
                own_gaps.append(result(["shop"], (shop, start), end - start, n=n))
                start, n = row["ts"], 0
            end, n = max(end, row["ts"] + (2_500 if row["price"] < 30 else 5_000)), n + 1
        own_gaps.append(result(["shop"], (shop, start), end - start, n=n))
    whole = [
        result([], key, FIVE, sales=len(rows), most=max(row["price"] for row in rows))
        for key, rows in by_window(SOLD, [], FIVE)[0].items()
    ]
    days, months = [], []
    for shop in ("ulm", "rom"):
        total = sum(row["price"] for row in SOLD if row["shop"] == shop)
        noon = SOLD[0]["ts"]
        days.append(result(["shop"], (shop, noon - 13 * HOUR), 24 * HOUR, total=total))
        months.append(result(["shop"], (shop, noon - 12 * HOUR), 31 * 24 * HOUR, total=total))
    found = {"growing": growing, "hundreds": hundreds, "all": whole, "spreads": spreads}
    found |= {"early": early, "large": large, "priced": priced, "shifts": shifts}
    found |= {"own gaps": own_gaps, "sixties": sixties, "local days": days, "months": months}
    counts = [(0, 2), (1, 1), (3, 1)]
    minutes = [result(["page"], ("home", minute * 60_000), 60_000, clicks=n) for minute, n in counts]
    late = Wanted(
        {"minutes": minutes, "late": [{"page": "home", "at": 55_000}]},
        # The first minute may be updated; its last result has both clicks.
        views={"minutes": lambda found: found.unique("window_start", keep="last", maintain_order=True)},
    )
    return {job: Wanted({job: rows}) for job, rows in found.items()} | {"late rows": late}


# --- docs/changes.md --------------------------------------------------------------------------------


def changes() -> dict[str, Wanted]:
    states = [("new", 1, 500), ("paid", 1, 300)]
    slowest = [("buy", 1, "ada", 1), ("home", 1, "bo", 9), ("home", 2, "eve", 5)]
    return {
        "orders by state": Wanted(
            {"states": [{"state": state, "n": n, "cents": cents} for state, n, cents in states]},
            views={"states": _last_of_states},
        ),
        "slowest": Wanted(
            {
                "slowest": [
                    {"page": page, "user": user, "ms": ms, "rank": rank}
                    for page, rank, user, ms in slowest
                ]
            },
            views={"slowest": in_the_end},
        ),
    }


# --- docs/sql.md --------------------------------------------------------------------------------------


def sql() -> dict[str, Wanted]:
    dear: dict[tuple[int, int], float] = {}
    for i in range(300):
        price = 100 + i * 7 % 50
        if price > 140 and i % 5 != 2:
            key = (i % 3, i // 60)
            dear[key] = max(dear.get(key, 0), price / 100)
    most = [
        {
            "auction": auction,
            "window_start": _in_march(minute),
            "window_end": _in_march(minute + 1),
            "most": dollars,
        }
        for (auction, minute), dollars in dear.items()
    ]
    return {
        "dear bids": Wanted({"dear": most}),
        "popular auctions": Wanted({"popular": list(_popular())}),
        "bidders": Wanted(
            # Each of the five has the same number of bids.
            {"often": [{"bids": 60, "bidders": 5}], "first": list(_highest())},
            views={"often": _last_of_bids, "first": in_the_end},
        ),
        "payments": Wanted(
            # All bids are older than a minute when event time ends.
            {"answered": list(_answered()), "recent": []},
            views={"recent": _left_of_auctions},
        ),
        "paid for": Wanted({"paid for": list(_paid_for())}, views={"paid for": _left}),
        "beside the mean": Wanted({"beside": list(_beside_the_mean())}),
    }


def sql_functions() -> dict[str, Wanted]:
    visits = [("ann", 2), ("ann", 1), ("bob", 2)]
    return {
        "words of bidders": Wanted({"words": list(_words_of_bidders())}),
        "visits": Wanted({"visits": [{"user": user, "pages": pages} for user, pages in visits]}),
    }


def sql_patterns() -> dict[str, Wanted]:
    return {
        "dips": Wanted(
            {
                "dips": [
                    {
                        "symbol": "ACME",
                        "begun": _in_march(0) + timedelta(seconds=4),
                        "bottom": _in_march(0) + timedelta(seconds=7),
                        "bottom_price": 14,
                    }
                ],
                # Detected at 5 and at 8 seconds.
                "runs": [
                    {"window_start": _in_march(0), "way": "UP", "n": 4},
                    {"window_start": _in_march(0), "way": "DOWN", "n": 2},
                ],
            }
        ),
    }


# --- docs/ml.md ---------------------------------------------------------------------------------------


def ml() -> dict[str, Wanted]:
    """Return the golden; each city has 50 rides of 10 minutes, and then 50 of 30."""
    rides = [{"city": "ab"[i % 2], "km": float(i)} for i in range(200)]
    # The mean so far stays below 30; for the first row it is null.
    wrong = rides[100:]
    return {
        "minutes": Wanted({"wrong": wrong}),
        "drifts": Wanted({"drifts": list(_drifts(rides))}),
        "long rides": Wanted(
            {"long rides": [{"km": km, "expected": 2 * km} for km in (196.0, 197.0, 198.0, 199.0)]}
        ),
        "by SQL": Wanted(
            {"by SQL": [{"km": ride["km"], "expected": 2 * ride["km"]} for ride in rides]}
        ),
        "serving": Wanted({"served": [{"km": ride["km"], "right": True} for ride in rides]}),
    }


def _drifts(rides: Sequence[Row]) -> Iterable[Row]:
    """Return the rows at which the errors exceed their mean so far, less 0.005, by more than 100 in
    total."""
    for city in "ab":
        minutes = [10.0] * 50 + [30.0] * 50
        errors = [abs(minutes[n] - sum(minutes[:n]) / n) for n in range(1, 100)]
        above: list[float] = []
        for n, error in enumerate(errors, start=1):
            above.append(error - sum(errors[:n]) / n - 0.005)
            sums = [0.0, *(sum(above[:k]) for k in range(1, n + 1))]
            if n >= 30 and sums[-1] - min(sums) > 100:
                yield [ride for ride in rides if ride["city"] == city][n]
                break


def _last_of_bids(found: pl.DataFrame) -> pl.DataFrame:
    last = found.unique("bids", keep="last", maintain_order=True)
    return last.filter(pl.col("op") != "delete").drop("op")


def _left_of_auctions(found: pl.DataFrame) -> pl.DataFrame:
    last = found.unique("auction", keep="last", maintain_order=True)
    return last.filter(pl.col("op") != "delete").drop("op")


def _popular() -> Iterable[Row]:
    for end in range(1, 7):
        for auction in range(3):
            of = [i for i in range(300) if end - 2 <= i // 60 < end and i % 3 == auction]
            serious = {i % 5 for i in of if 100 + i * 7 % 50 > 120}
            if len(of) > 20:
                yield {
                    "window_end": _in_march(end),
                    "auction": auction,
                    "bids": len(of),
                    "highest": max(100 + i * 7 % 50 for i in of),
                    "serious": len(serious),
                }


def _paid_for() -> Iterable[Row]:
    cents = {100 * i: i % 3 for i in range(15)}
    paid = {auction for of, auction in cents.items() if of > 1000}
    for i in range(300):
        price = 100 + i * 7 % 50
        if i % 3 in paid and price not in cents:
            yield {"auction": i % 3, "price": price}


def _left(found: pl.DataFrame) -> pl.DataFrame:
    """Return the final rows of a table without a key."""
    here = pl.col("op").is_in(["insert", "update_after"])
    counted = found.group_by("auction", "price").agg(
        pl.when(here).then(1).otherwise(-1).sum().alias("n")
    )
    return counted.select(pl.exclude("n").repeat_by("n")).explode(pl.all())


def _beside_the_mean() -> Iterable[Row]:
    for i in range(300):
        # Bids of one auction are three seconds apart.
        prices = [100 + n * 7 % 50 for n in range(i, max(i - 60, i % 3) - 1, -3)]
        yield {
            "auction": i % 3,
            "at": _in_march(0) + timedelta(seconds=i),
            "beside_the_mean": prices[0] - sum(prices) / len(prices),
            "before": prices[1] if len(prices) > 1 else None,
        }


def _words_of_bidders() -> Iterable[Row]:
    for minute in range(5):
        prices = [100 + i * 7 % 50 for i in range(60 * minute, 60 * minute + 60)]
        spread = 2 * (max(prices) - min(prices))
        found = {"word": "user", "most": max(prices) / 100, "spread": spread}
        yield {"window_end": _in_march(minute + 1), **found}


def _answered() -> Iterable[Row]:
    for i in range(15):
        for at in (20 * i - 1, 20 * i):
            if at >= 0 and at % 3 == i % 3:
                bid = {"bidder": f"user {at % 5}", "price": 100 + at * 7 % 50}
                yield {"auction": i % 3, "cents": 100 * i, **bid}


def _highest() -> Iterable[Row]:
    for auction in range(3):
        first = max(range(auction, 300, 3), key=lambda i: (i * 7 % 50, -i))
        yield {"auction": auction, "bidder": f"user {first % 5}", "price": 100 + first * 7 % 50}


def _in_march(minute: int) -> datetime:
    return datetime(2026, 3, 1, 12, minute, tzinfo=UTC)


def _last_of_states(found: pl.DataFrame) -> pl.DataFrame:
    return found.unique("state", keep="last", maintain_order=True).drop("op")


GOLDENS: Mapping[str, Callable[[], dict[str, Wanted]]] = {
    "README.md": readme,
    "docs/guide.md": guide,
    "docs/files.md": files,
    "docs/functions.md": functions,
    "docs/async.md": asynchronous,
    "docs/partitioning.md": partitioning,
    "docs/watermarks.md": watermarks,
    "docs/keyed-state.md": keyed_state,
    "docs/history.md": history,
    "docs/restarts.md": restarts,
    "docs/tables.md": tables,
    "docs/iterations.md": iterations,
    "docs/joins.md": joins,
    "docs/patterns.md": patterns,
    "docs/sql.md": sql,
    "docs/sql-functions.md": sql_functions,
    "docs/sql-patterns.md": sql_patterns,
    "docs/ml.md": ml,
    "docs/aggregates.md": aggregates,
    "docs/decimals.md": decimals,
    "docs/changes.md": changes,
    "docs/connected.md": connected,
    "docs/vectorised.md": vectorised,
    "docs/windows.md": windows,
}
