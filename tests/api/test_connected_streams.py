"""Connected and broadcast streams: programs that are refused, and the resulting plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import RheosError

CLICK = pa.schema([("user", pa.int64()), ("page", pa.string()), ("at", pa.timestamp("us"))])
VIEW = pa.schema([("viewer", pa.int32()), ("name", pa.string()), ("at", pa.timestamp("us"))])


@dataclass
class Event:
    user: int
    what: str


@dataclass
class Other:
    what: str


def streams(*, timed: tuple[bool, bool] = (True, True)) -> tuple[rh.DataStream, rh.DataStream]:
    env = rh.Environment(2, runtime="simulated")
    at = rh.Watermark.monotonic(on="at")
    clicks, views = (
        env.from_source(rh.collection([], schema=schema), at if has else None)
        for schema, has in zip((CLICK, VIEW), timed, strict=True)
    )
    return clicks, views


def of_click(click: Any) -> Event:
    return Event(click.user, click.page)


def of_view(view: Any) -> Event:
    return Event(view.viewer, view.name)


def other_of_view(view: Any) -> Other:
    return Other(view.name)


class Both(rh.CoProcessFunction):
    def process_element1(self, click: Any, ctx: rh.ProcessContext) -> Iterator[Event]:
        yield of_click(click)

    def process_element2(self, view: Any, ctx: rh.ProcessContext) -> None: ...


class Keyed(rh.KeyedCoProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element1(self, click: Any, ctx: rh.KeyedContext) -> Iterator[Event]:
        yield of_click(click)

    def process_element2(self, view: Any, ctx: rh.KeyedContext) -> Iterator[Event]:
        yield of_view(view)


class Ruled(rh.BroadcastProcessFunction):
    names = rh.BroadcastState(str, int)

    def process_element(self, click: Any, ctx: rh.ProcessContext) -> Iterator[Event]:
        yield of_click(click)

    def process_broadcast_element(self, view: Any, ctx: rh.ProcessContext) -> None: ...


class KeyedRuled(rh.KeyedBroadcastProcessFunction):
    names = rh.BroadcastState(str, int)

    def process_element(self, click: Any, ctx: rh.KeyedContext) -> Iterator[Event]:
        yield of_click(click)

    def process_broadcast_element(self, view: Any, ctx: rh.ProcessContext) -> None: ...


class Plain(rh.ProcessFunction):
    def process_element(self, click: Any, ctx: rh.ProcessContext) -> Iterator[Event]:
        yield of_click(click)


class Half(rh.CoProcessFunction):
    def process_element1(self, click: Any, ctx: rh.ProcessContext) -> Iterator[Event]:
        yield of_click(click)


class OfTwoTypes(Both):
    def process_element2(self, view: Any, ctx: rh.ProcessContext) -> Iterator[Other]:  # type: ignore[override]
        yield other_of_view(view)


class WithKeyedState(Both):
    n = rh.ValueState(int, default=0)


class WithBroadcastState(Keyed):
    names = rh.BroadcastState(str, int)


class WithOperatorState(Keyed):
    seen = rh.OperatorListState(str)


class Unstorable(Ruled):
    locks = rh.BroadcastState(str, random.Random)


class CountsByTimer(Keyed):
    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Event]:
        yield Event(0, "")


def connected() -> rh.ConnectedStreams:
    clicks, views = streams()
    return clicks.connect(views)


def keyed() -> rh.KeyedConnectedStreams:
    clicks, views = streams()
    return clicks.key_by("user").connect(views.key_by("viewer"))


def _untimed() -> rh.KeyedConnectedStreams:
    clicks, views = streams(timed=(False, False))
    return clicks.key_by("user").connect(views.key_by("viewer"))


def ruled() -> rh.ConnectedStreams:
    clicks, views = streams(timed=(True, False))
    return clicks.connect(views.broadcast())


def keyed_ruled() -> rh.KeyedConnectedStreams:
    clicks, views = streams(timed=(True, False))
    return clicks.key_by("user").connect(views.broadcast())


class WithLate(Keyed):
    side_outputs = {"late_right": Other}


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    (
        "an order that is none",
        lambda: keyed().process(Keyed(), order="time"),  # type: ignore[arg-type]
        "order='time' is not known",
    ),
    (
        "event-time order of broadcast rows without event time",
        lambda: keyed_ruled().process(KeyedRuled(), order="event_time"),
        'order="event_time" needs event time',
    ),
    (
        "event-time order of broadcast rows without event time or key",
        lambda: ruled().process(Ruled(), order="event_time"),
        'order="event_time" needs event time',
    ),
    (
        "event-time order without a key",
        lambda: connected().process(Both(), order="event_time"),
        "order='event_time' needs a key or a broadcast stream",
    ),
    (
        "late rows in the order of arrival",
        lambda: keyed().process(Keyed(), late=("side_output", "deliver")),
        'late="deliver" needs order="event_time"',
    ),
    (
        "something else with late rows",
        lambda: keyed().process(Keyed(), order="event_time", late="drop"),  # type: ignore[arg-type]
        "late='drop' is not known",
    ),
    (
        "late rows of three streams",
        lambda: keyed().process(Keyed(), order="event_time", late=("deliver",) * 3),  # type: ignore[arg-type]
        "is not known",
    ),
    (
        "the side output of rows that are delivered",
        lambda: (
            keyed()
            .process(Keyed(), order="event_time", late=("side_output", "deliver"))
            .side_output("late_right")
        ),
        "late_right",
    ),
    (
        "event-time order without event time",
        lambda: _untimed().process(Keyed(), order="event_time"),
        'order="event_time" needs event time',
    ),
    (
        "a side output by the name of late rows",
        lambda: keyed().process(WithLate(), order="event_time"),
        "the side output 'late_right' is reserved for late rows",
    ),
    ("keys of two types", lambda: _keys("user", "name"), "keys of different types"),
    ("one keyed", lambda: streams()[0].key_by("user").connect(streams()[1]), "cannot take"),
    ("the other keyed", lambda: streams()[0].connect(streams()[1].key_by("name")), "cannot take"),
    ("two environments", lambda: streams()[0].connect(streams()[1]), "one environment"),
    ("broadcast first", lambda: _broadcast_first(), "the broadcast stream must be the argument of"),
    ("one without event time", lambda: _times(False, True), "the second stream has event time"),
    ("one function", lambda: connected().map(of_click), "takes two functions"),
    ("no function", lambda: connected().map(of_click, 3), "takes a function, not 3"),
    ("two types of records", lambda: connected().map(of_click, other_of_view), "different types"),
    ("a class", lambda: connected().process(Both), "an instance, not the class Both"),
    ("a class that maps", lambda: connected().map(rh.CoMapFunction), "takes an instance, not"),
    ("a method", lambda: keyed().process(Keyed().process_element1), "not its method"),
    ("half a function", lambda: connected().process(Half()), "does not define process_element2"),
    ("two types of one", lambda: connected().process(OfTwoTypes()), "different types of records"),
    ("of keys", lambda: connected().process(Keyed()), "takes a CoProcessFunction, not"),
    ("of no keys", lambda: keyed().process(Both()), "takes a KeyedCoProcessFunction, not"),
    ("not of broadcast", lambda: ruled().process(Both()), "takes a BroadcastProcessFunction, not"),
    (
        "map of broadcast",
        lambda: ruled().map(of_click, of_view),
        "() is not available with a broadcast stream",
    ),
    (
        "key behind broadcast",
        lambda: ruled().key_by("user", "viewer"),
        "() is not available with a broadcast stream",
    ),
    ("state by key", lambda: connected().process(WithKeyedState()), "has no key"),
    ("broadcast state", lambda: keyed().process(WithBroadcastState()), "no broadcast stream"),
    ("operator state", lambda: keyed().process(WithOperatorState()), "is keyed"),
    ("no such state", lambda: ruled().process(Unstorable()), "cannot be stored"),
    ("of a plain stream", lambda: streams()[0].process(Keyed()), "takes a ProcessFunction, not"),
    ("a keyed stream's", lambda: streams()[0].key_by("user").process(Plain()), "KeyedProcessFunction"),
    ("a method of one", lambda: connected().filter("user > 1"), "connected streams has no filter"),  # type: ignore[attr-defined]
    ("a map by key", lambda: keyed().map(of_click, of_view), "connected streams has no map"),  # type: ignore[attr-defined]
    ("no event time", lambda: _timers(), "a timer of event time"),
]


def _keys(first: str, second: str) -> object:
    clicks, views = streams()
    return clicks.key_by(first).connect(views.key_by(second))


def _broadcast_first() -> object:
    clicks, views = streams()
    return clicks.broadcast().connect(views)


def _times(first: bool, second: bool) -> object:
    clicks, views = streams(timed=(first, second))
    return clicks.connect(views)


def _timers() -> object:
    clicks, views = streams()
    changed = clicks.with_columns(at=rh.col("at").dt.offset_by("1h"))
    return changed.key_by("user").connect(views.key_by("viewer")).process(CountsByTimer())


@pytest.mark.parametrize(("write", "what"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_invalid_connected_programs_are_refused(write: Callable[[], object], what: str) -> None:
    with pytest.raises(RheosError, match=what) as raised:
        write()
    assert raised.value.site is not None
    assert raised.value.site.file == __file__, "the line is the user's"


def test_the_hint_names_the_method_for_a_function_class() -> None:
    with pytest.raises(RheosError, match=r"connect\(b\.key_by"):
        connected().process(Keyed())  # type: ignore[arg-type]
    with pytest.raises(RheosError, match=r"connect\(rules\.broadcast\(\)\)"):
        connected().process(Ruled())
    with pytest.raises(RheosError, match=r"call \.key_by\(\.\.\.\) first, and derive from the keyed"):
        connected().process(WithKeyedState())


def test_results_have_event_time_if_the_unbroadcast_rows_have_it() -> None:
    for stream in (
        connected().map(of_click, of_view),
        connected().process(Both()),
        keyed().process(Keyed()),
        connected().key_by("user", "viewer").process(Keyed()),
        ruled().process(Ruled()),
        keyed_ruled().process(KeyedRuled()),
    ):
        assert stream.schema.names == ["user", "what"]
        assert stream._type.event_time
    clicks, views = streams(timed=(False, True))
    assert not clicks.connect(views.broadcast()).process(Ruled())._type.event_time
