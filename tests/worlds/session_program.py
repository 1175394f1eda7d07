"""The program of worlds that has session windows, and its oracle.

The oracle adds rows one by one, in the order of their watermarks, to a set of windows that merge, as
Flink does for rows in that order. The operator does not rely on that order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.graph.windows import Session
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, millis, same


@dataclass
class OracleSession:
    """Session of a key."""

    start: int
    end: int
    opened: int
    """The earliest time at which one of its rows was there, and not passed by its watermark."""
    rows: list[Arrived]


def sessions_of(
    rows: Iterable[Arrived], gap_ms: int, lateness_ms: int
) -> tuple[list[OracleSession], list[Arrived]]:
    """Return the sessions of all keys, and the late rows."""

    def passed(row: Arrived) -> bool:
        return row.at + gap_ms - 1 + lateness_ms <= row.wm

    sessions: dict[int, list[OracleSession]] = defaultdict(list)
    late = []
    # Among rows with one watermark, those with their own window are first.
    for row in sorted(rows, key=lambda row: (row.wm, passed(row))):
        of_key = sessions[row.k]
        met = [
            session
            for session in of_key
            if session.end - 1 + lateness_ms > row.wm
            and session.start <= row.at + gap_ms
            and row.at <= session.end
        ]
        if passed(row):
            met = [session for session in met if session.opened <= row.at + gap_ms]
            if not met:
                late.append(row)
                continue
            (session,) = met
            session.rows.append(row)
            session.start = min(session.start, row.at)
            continue
        for session in met:
            of_key.remove(session)
        of_key.append(
            OracleSession(
                min([row.at, *(session.start for session in met)]),
                max([row.at + gap_ms, *(session.end for session in met)]),
                min([max(row.at, row.wm + 2 - lateness_ms), *(session.opened for session in met)]),
                [row, *(row for session in met for row in session.rows)],
            )
        )
    return [session for of_key in sessions.values() for session in of_key], late


def sessions(gap_ms: int, lateness_ms: int) -> CheckedProgram:
    """Return a program that counts and sums over sessions, with a late output."""

    def build(rows: DataStream) -> Mapping[str, DataStream]:
        counts = (
            rows.key_by("k")
            .window(Session(f"{gap_ms}ms"))
            .allowed_lateness(f"{lateness_ms}ms")
            .aggregate(n=agg.count(), s=agg.sum("v"), most=agg.max("i"))
        )
        return {"out": counts, "late": counts.side_output("late")}

    def check(rows: list[Arrived], outputs: Outputs) -> None:
        found, late = sessions_of(rows, gap_ms, lateness_ms)
        same((out["i"] for out in outputs["late"]), (row.i for row in late), "late rows")
        wanted = [
            (
                session.rows[0].k,
                session.start,
                session.end,
                len(session.rows),
                sum(row.v for row in session.rows),
                max(row.i for row in session.rows),
            )
            for session in found
        ]
        got = [
            (o["k"], millis(o["window_start"]), millis(o["window_end"]), o["n"], o["s"], o["most"])
            for o in outputs["out"]
        ]
        if lateness_ms == 0:
            same(got, wanted, "sessions")
            return
        # A session that has fired emits its result again when it gets more rows, and may grow by them.
        last = {result[:3]: result for result in sorted(got)}
        final = {result[:3] for result in wanted}
        same((last[window] for window in final if window in last), wanted, "last results of sessions")
        for key, start, end in last.keys() - final:
            grown = any(k == key and s <= start and end <= e for k, s, e in final)
            assert grown, f"a session of {key} from {start} to {end}, which no other one holds"

    return CheckedProgram(f"sessions({gap_ms}, late {lateness_ms})", build, check)
