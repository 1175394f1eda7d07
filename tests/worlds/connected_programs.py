"""Programs of connected and broadcast streams, each with its straight-line oracle (`programs`)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import polars as pl

from rheos.api.streams import DataStream
from rheos.core.graph.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessContext,
)
from rheos.core.graph.functions import KeyedContext
from rheos.core.graph.state import BroadcastState, ReducingState, ValueState
from rheos.core.operators.late_rows import LATE_OF_TWO
from tests.worlds.programs import TIMER_MS, Arrived, CheckedProgram, Outputs, same

_LAST_MS = 1 << 50
"""A timer after all rows."""

_RULE_EVERY = 5


@dataclass
class SidesSoFar:
    """A row, or -1 after the last row of a key, and the rows of its key so far."""

    k: int
    i: int
    first: int
    second: int
    most: int


class Sides(KeyedCoProcessFunction):
    """Function that counts the rows of a key by their stream."""

    first = ValueState(int, default=0)
    second = ValueState(int, default=0)
    most = ReducingState(int, max)

    def process_element1(self, row: Any, ctx: KeyedContext) -> Iterator[SidesSoFar]:
        self.first.value += 1
        return self._counted(row.i, ctx)

    def process_element2(self, row: Any, ctx: KeyedContext) -> Iterator[SidesSoFar]:
        self.second.value += 1
        return self._counted(row.i, ctx)

    def _counted(self, i: int, ctx: KeyedContext) -> Iterator[SidesSoFar]:
        self.most.add(i)
        ctx.timers.register(_LAST_MS)
        yield SidesSoFar(ctx.key, i, self.first.value, self.second.value, self.most.value)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[SidesSoFar]:
        yield SidesSoFar(ctx.key, -1, self.first.value, self.second.value, self.most.value)


def _is_second(i: int) -> bool:
    return i % 3 == 0


def _connected(rows: DataStream) -> Mapping[str, DataStream]:
    first = rows.filter(pl.col("i") % 3 > 0).key_by("k")
    second = rows.filter(pl.col("i") % 3 == 0).select("i", "at", key=pl.col("k").cast(pl.Int16))
    return {"out": first.connect(second.key_by("key")).process(Sides())}


def _check_connected(rows: list[Arrived], outputs: Outputs) -> None:
    keyed: dict[int, list[Arrived]] = defaultdict(list)
    for row in rows:
        keyed[row.k].append(row)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for out in outputs["out"]:
        found[out["k"]].append(out)
    assert found.keys() == keyed.keys()
    for key, of_key in keyed.items():
        outs = [out for out in found[key] if out["i"] >= 0]
        same((out["i"] for out in outs), (row.i for row in of_key), f"rows of key {key}")
        # The two streams may be in any order, in which each row counts exactly once.
        counts, most = [0, 0], -1
        for out in sorted(outs, key=lambda out: int(out["first"] + out["second"])):
            counts[_is_second(out["i"])] += 1
            most = max(most, out["i"])
            assert [out["first"], out["second"], out["most"]] == [*counts, most], f"{out}: {counts}"
        [last] = [out for out in found[key] if out["i"] < 0]
        assert [last["first"], last["second"], last["most"]] == [*counts, most], f"{last}: {counts}"


CONNECTED = CheckedProgram("connected", _connected, _check_connected, _check_connected)


@dataclass
class Followed:
    """A row of the first stream, or -1 at a timer, and the row of the second stream before it."""

    k: int
    i: int
    last: int
    timer: int


class Follow(KeyedCoProcessFunction):
    last = ValueState(int, default=-1)

    def process_element1(self, row: Any, ctx: KeyedContext) -> Iterator[Followed]:
        ctx.timers.register(ctx.timestamp + TIMER_MS)
        yield Followed(ctx.key, row.i, self.last.value, 0)

    def process_element2(self, row: Any, ctx: KeyedContext) -> None:
        self.last.value = row.i

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[Followed]:
        yield Followed(ctx.key, -1, self.last.value, timestamp)
        self.last.clear()


def _followed(rows: DataStream) -> Mapping[str, DataStream]:
    first = rows.filter(pl.col("i") % 3 > 0).key_by("k")
    second = rows.filter(pl.col("i") % 3 == 0).select("i", "at", key=pl.col("k").cast(pl.Int16))
    found = first.connect(second.key_by("key")).process(Follow(), order="event_time")
    return {"out": found, **{tag: found.side_output(tag) for tag in LATE_OF_TWO}}


def _check_followed(rows: list[Arrived], outputs: Outputs) -> None:
    _check_followed_but(rows, outputs, _late(rows))


def _check_followed_idle(rows: list[Arrived], outputs: Outputs) -> None:
    # A row that others overtook while its split was idle is late, too.
    late = {out["i"] for tag in LATE_OF_TWO for out in outputs[tag]}
    assert _late(rows) <= late, f"not late: {_late(rows) - late}"
    _check_followed_but(rows, outputs, late)


def _late(rows: list[Arrived]) -> set[int]:
    """Return the rows that are late within their own split."""
    return {row.i for row in rows if row.at <= row.wm}


def _check_followed_but(rows: list[Arrived], outputs: Outputs, late: Set[int]) -> None:
    keyed: dict[int, list[tuple[int, bool, int]]] = defaultdict(list)
    for row in rows:
        if row.i not in late:
            keyed[row.k].append((row.at, _is_second(row.i), row.i))
    wanted: list[tuple[int, int, int, int]] = []
    for key, of_key in keyed.items():
        last, timers = -1, set[int]()
        for at, second, i in [*sorted(of_key), (_LAST_MS, True, -1)]:
            for timer in sorted(timer for timer in timers if timer < at):
                wanted.append((key, -1, last, timer))
                timers.remove(timer)
                last = -1
            if second:
                last = i
            else:
                wanted.append((key, i, last, 0))
                timers.add(at + TIMER_MS)
    same(((o["k"], o["i"], o["last"], o["timer"]) for o in outputs["out"]), wanted, "rows")
    for number, tag in enumerate(LATE_OF_TWO):
        of_side = (row.i for row in rows if row.i in late and _is_second(row.i) == bool(number))
        same((out["i"] for out in outputs[tag]), of_side, tag)


FOLLOWED = CheckedProgram("connected in event time", _followed, _check_followed, _check_followed_idle)


@dataclass
class Judged:
    """A row, or -1 after the last row of a key; the number of its key's rows so far; the number of
    rules that its subtask knows; and how often a rule arrived at most."""

    k: int
    i: int
    n: int
    known: int
    most: int


class Judge(KeyedBroadcastProcessFunction):
    rules = BroadcastState(int, int)
    n = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[Judged]:
        self.n.value += 1
        ctx.timers.register(_LAST_MS)
        return self._judged(row.i, ctx)

    def process_broadcast_element(self, row: Any, ctx: ProcessContext) -> None:
        self.rules[row.i] = self.rules.get(row.i, 0) + 1

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[Judged]:
        return self._judged(-1, ctx)

    def _judged(self, i: int, ctx: KeyedContext) -> Iterator[Judged]:
        most = max(self.rules.values(), default=0)
        yield Judged(ctx.key, i, self.n.value, len(self.rules), most)


def _broadcast(rows: DataStream) -> Mapping[str, DataStream]:
    rules = rows.filter(pl.col("i") % _RULE_EVERY == 0).select("i")
    judged = rows.filter(pl.col("i") % _RULE_EVERY > 0).key_by("k")
    return {"out": judged.connect(rules.broadcast()).process(Judge())}


def _check_broadcast(rows: list[Arrived], outputs: Outputs) -> None:
    keyed: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row.i % _RULE_EVERY:
            keyed[row.k].append(row.i)
    rules = sum(row.i % _RULE_EVERY == 0 for row in rows)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for out in outputs["out"]:
        found[out["k"]].append(out)
        assert out["most"] <= 1, f"{out}: a rule came twice"
    assert found.keys() == keyed.keys()
    for key, numbers in keyed.items():
        outs = [out for out in found[key] if out["i"] >= 0]
        same((out["i"] for out in outs), numbers, f"rows of key {key}")
        same((out["n"] for out in outs), range(1, len(numbers) + 1), f"counts of key {key}")
        [last] = [out for out in found[key] if out["i"] < 0]
        assert (last["n"], last["known"]) == (len(numbers), rules), f"{last}: there are {rules} rules"


BROADCAST = CheckedProgram("broadcast", _broadcast, _check_broadcast, _check_broadcast)


# --- rules in event time ------------------------------------------------------------------------------


@dataclass
class Ruled:
    """A row, or -1 at a timer; a digest of the rules before it, in their order; whether it was late."""

    k: int
    i: int
    digest: int
    late: bool
    timer: int


class _Rules:
    """The broadcast state of both functions."""

    rules: Any

    def digest(self) -> int:
        return int(self.rules.get(0, 0))

    def process_broadcast_element(self, rule: Any, ctx: ProcessContext) -> None:
        self.rules[0] = _with_rule(self.digest(), rule.i, late=ctx.is_late)


def _with_rule(digest: int, i: int, *, late: bool) -> int:
    return (digest * 31 + 2 * i + late + 1) % (1 << 40)


class KeyedRules(_Rules, KeyedBroadcastProcessFunction):
    rules = BroadcastState(int, int)
    n = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[Ruled]:
        self.n.value += 1
        if not ctx.is_late:
            ctx.timers.register(ctx.timestamp + TIMER_MS)
        yield Ruled(ctx.key, row.i, self.digest(), ctx.is_late, 0)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[Ruled]:
        yield Ruled(ctx.key, -1, self.digest(), ctx.is_late, timestamp)


class PlainRules(_Rules, BroadcastProcessFunction):
    rules = BroadcastState(int, int)

    def process_element(self, row: Any, ctx: ProcessContext) -> Iterator[Ruled]:
        yield Ruled(row.k, row.i, self.digest(), ctx.is_late, 0)


def _is_rule(i: int) -> bool:
    return i % _RULE_EVERY == 0


def _ruled(rows: DataStream, late: Any) -> Mapping[str, DataStream]:
    rules = rows.filter(pl.col("i") % _RULE_EVERY == 0).select("i", "at").broadcast()
    events = rows.filter(pl.col("i") % _RULE_EVERY > 0)
    keyed = events.key_by("k").connect(rules)
    found = keyed.process(KeyedRules(), order="event_time", late=late)
    plain = events.connect(rules).process(PlainRules(), order="event_time", late=late)
    tags = LATE_OF_TWO if late == "side_output" else ()
    sides = {tag: found.side_output(tag) for tag in tags}
    return {"out": found, "plain": plain, **sides}


def _ruled_in_time(rows: DataStream) -> Mapping[str, DataStream]:
    return _ruled(rows, "side_output")


def _ruled_always(rows: DataStream) -> Mapping[str, DataStream]:
    return _ruled(rows, "deliver")


def _check_ruled_in_time(rows: list[Arrived], outputs: Outputs) -> None:
    late = [row for row in rows if row.at <= row.wm]
    _check_ruled([row for row in rows if row.at > row.wm], outputs)
    for number, tag in enumerate(LATE_OF_TWO):
        # Rules that are late are emitted once, not by each subtask.
        same((out["i"] for out in outputs[tag]), (r.i for r in late if _is_rule(r.i) == number), tag)


def _place(row: Arrived) -> tuple[int, bool]:
    """Return the place of a row among all: of one time, late rows come first."""
    return (row.at, True) if row.at > row.wm else (row.wm + 1, False)


def _check_ruled(rows: list[Arrived], outputs: Outputs) -> None:
    rules = sorted((*_place(row), row.at, row.i) for row in rows if _is_rule(row.i))
    digests = [((-(1 << 62), False), 0)]
    for at, in_time, _, i in rules:
        digests.append(((at, in_time), _with_rule(digests[-1][1], i, late=not in_time)))

    def digest_at(place: tuple[int, bool]) -> int:
        return digests[bisect_right(digests, place, key=lambda each: each[0]) - 1][1]

    wanted, timers = [], set[tuple[int, int]]()
    for row in rows:
        if not _is_rule(row.i):
            wanted.append((row.k, row.i, digest_at(_place(row)), row.at <= row.wm, 0))
            if row.at > row.wm:
                timers.add((row.k, row.at + TIMER_MS))
    fired = [(k, -1, digest_at((at, True)), False, at) for k, at in timers]
    for name, expected in (("out", wanted + fired), ("plain", wanted)):
        found = ((o["k"], o["i"], o["digest"], o["late"], o["timer"]) for o in outputs[name])
        same(found, expected, name)


def _check_ruled_idle(rows: list[Arrived], outputs: Outputs) -> None:
    """Check that each row is processed once. Rows that others overtook while their split was idle meet
    other rules."""
    late = [out["i"] for out in outputs.get("late_left", ())]
    expected = [row.i for row in rows if not _is_rule(row.i)]
    same((*(out["i"] for out in outputs["out"] if out["i"] >= 0), *late), expected, "out")


RULED = CheckedProgram("rules in event time", _ruled_in_time, _check_ruled_in_time, _check_ruled_idle)
RULED_ALWAYS = CheckedProgram(
    "rules in event time, late ones too", _ruled_always, _check_ruled, _check_ruled_idle
)
