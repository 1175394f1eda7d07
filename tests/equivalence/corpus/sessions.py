"""Programs of session windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import rheos as rh
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.oracle import Row, arrived, bare, by_window, result
from tests.equivalence.corpus.program import Given, Golden, Program
from tests.equivalence.corpus.windows import AGGREGATES, aggregated

GAP_MS = 5_000


class Found(NamedTuple):
    key: tuple[Any, ...]
    start: int
    end: int
    rows: list[Row]


def by_session(rows: Iterable[Row], keys: Sequence[str], gap: int) -> tuple[list[Found], list[Row]]:
    """Return the sessions, and the late rows. A row covers the part of [ts, ts + gap] that its
    watermark had not passed; rows whose covers touch are one session. A row without cover belongs to
    the session that covers everything from its end to its watermark, or is late."""
    of_keys: dict[tuple[Any, ...], list[tuple[int, int, Row]]] = defaultdict(list)
    for row in rows:
        low, high = max(row["ts"], row["wm"] + 2), row["ts"] + gap
        of_keys[tuple(row[key] for key in keys)].append((low, high, row))
    found: list[Found] = []
    late: list[Row] = []
    for key, covers in of_keys.items():
        sessions: list[tuple[int, int, list[Row]]] = []
        for low, high, row in sorted((c for c in covers if c[0] <= c[1]), key=lambda c: c[0]):
            if sessions and low <= sessions[-1][1]:
                before, to, held = sessions[-1]
                sessions[-1] = before, max(to, high), [*held, row]
            else:
                sessions.append((low, high, [row]))
        for low, high, row in (c for c in covers if c[0] > c[1]):
            for from_, to, held in sessions:
                if from_ <= high and low <= to:
                    held.append(row)
                    break
            else:
                late.append(row)
        found += [Found(key, min(row["ts"] for row in held), to, held) for _, to, held in sessions]
    return found, late


@dataclass
class Visit:
    shop: str
    start: int
    end: int
    numbers: list[int]


class Visits(rh.WindowFunction):
    def process(self, records: list[Sale], ctx: rh.WindowContext) -> Iterator[Visit]:
        assert [sale.at for sale in records] == sorted(sale.at for sale in records)
        window = ctx.window
        yield Visit(ctx.key, window.start_ms, window.end_ms, sorted(sale.n for sale in records))


def sessions(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    of_users = sales.key_by("user").window(rh.Session(gap="5 seconds")).aggregate(**AGGREGATES)
    shops = sales.key_by("shop")
    visits = shops.window(rh.Session(gap="1s")).process(Visits())
    lenient = shops.window(rh.Session(gap="2s")).allowed_lateness("3s").aggregate(n=rh.agg.count())
    return {
        "sessions": of_users,
        "late": of_users.side_output("late"),
        "by minute": of_users.key_by("user")
        .window(rh.Tumbling("1m"))
        .aggregate(sessions=rh.agg.count(), sales=rh.agg.sum("rows")),
        "visits": visits,
        "late visits": visits.side_output("late"),
        "later than allowed": lenient.side_output("late"),
    }


def sessions_golden() -> Mapping[str, Golden]:
    found, late = by_session(arrived(SALES), ["user"], GAP_MS)
    results = [
        {**result(["user"], (*of.key, of.start), of.end - of.start, **aggregated(of.rows))}
        for of in found
    ]
    ended = [{**row, "ts": of.end - 1, "wm": -(2**63)} for row, of in zip(results, found, strict=True)]
    minutes, _ = by_window(ended, ["user"], 60_000)
    visits, late_visits = by_session(arrived(SALES), ["shop"], 1_000)
    # Allowed lateness is a watermark that is behind by as much.
    lenient = [{**row, "wm": row["wm"] - 3_000} for row in arrived(SALES)]
    return {
        "sessions": results,
        "late": bare(late),
        "by minute": [
            result(["user"], key, 60_000, sessions=len(rows), sales=sum(row["rows"] for row in rows))
            for key, rows in minutes.items()
        ],
        "visits": [
            {
                "shop": of.key[0],
                "start": of.start,
                "end": of.end,
                "numbers": sorted(row["n"] for row in of.rows),
            }
            for of in visits
        ],
        "late visits": bare(late_visits),
        "later than allowed": bare(by_session(lenient, ["shop"], 2_000)[1]),
    }


PROGRAMS = (Program("session windows", sessions, sessions_golden),)
