"""A timer that no method of the function handles, and a default of another type, are errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import rheos as rh
from tests.api.programs import Event, environment, events

METHODS = ("on_timer", "on_timers", "on_event_time", "on_processing_time")


@dataclass
class Pair:
    a: int
    b: list[str]


class Keyed(rh.KeyedProcessFunction):
    register = "register"

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
        getattr(ctx.timers, self.register)(ctx.timestamp)
        return [event]


class Batches(rh.KeyedBatchFunction):
    register = "register"

    def process_batch(self, keys: Any, batch: pl.DataFrame, state: Any) -> Iterator[rh.Emit[Event]]:
        getattr(state.timers, self.register)(keys, keys.timestamps)
        yield rh.Emit(batch)


class Two(rh.KeyedCoProcessFunction):
    register = "register"

    def process_element1(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
        getattr(ctx.timers, self.register)(ctx.timestamp)
        return [event]

    def process_element2(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
        return []


class Rules(rh.KeyedBroadcastProcessFunction):
    register = "register"

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
        getattr(ctx.timers, self.register)(ctx.timestamp)
        return [event]

    def process_broadcast_element(self, event: Event, ctx: Any) -> list[Event]:
        return []


class Fires(rh.Trigger):
    register = "register"

    def on_element(self, record: Event, ctx: rh.TriggerContext) -> rh.TriggerResult:
        getattr(ctx.timers, self.register)(ctx.timestamp)
        return rh.TriggerResult.CONTINUE


PROGRAMS: dict[type, Callable[[rh.DataStream, rh.DataStream, Any], rh.DataStream]] = {
    Keyed: lambda stream, _, fn: stream.key_by("user").process(fn),
    Batches: lambda stream, _, fn: stream.key_by("user").process(fn),
    Two: lambda stream, other, fn: stream.key_by("user").connect(other.key_by("user")).process(fn),
    Rules: lambda stream, other, fn: stream.key_by("user").connect(other.broadcast()).process(fn),
    Fires: lambda stream, _, fn: (
        stream.key_by("user").window(rh.Tumbling("1m")).trigger(fn).aggregate(n=rh.agg.count())
    ),
}


def run(cls: type, register: str, methods: tuple[str, ...] = ()) -> rh.JobResult:
    """Run a function that registers timers, and that has these methods."""

    def handled(self: Any, *_: Any) -> Any:
        return rh.TriggerResult.CONTINUE if cls is Fires else ()

    made = type(cls.__name__, (cls,), {"register": register, **dict.fromkeys(methods, handled)})
    env = environment()
    PROGRAMS[cls](events(env), events(env, name="others"), made()).collect("out")
    return env.execute("timers")


@pytest.mark.parametrize("register", ["register", "register_processing"])
@pytest.mark.parametrize("cls", PROGRAMS)
def test_a_timer_that_no_method_handles_is_an_error(cls: type, register: str) -> None:
    with pytest.raises(rh.RheosError) as raised:
        run(cls, register)
    error = raised.value
    while isinstance(error.__cause__, rh.RheosError):
        error = error.__cause__
    kinds = [each for each in METHODS if hasattr(cls, each)]
    wanted = kinds[-1] if register == "register_processing" else kinds[0]
    assert f"{cls.__name__} registers a timer, but has no method {wanted}" in error.what
    run(cls, register, (wanted,))


def test_every_class_with_timers_is_in_the_list() -> None:
    found = {
        cls
        for cls in map(rh.__getattr__, rh.__all__)
        if isinstance(cls, type) and any(hasattr(cls, method) for method in METHODS)
    }
    assert found == {cls.__mro__[1] for cls in PROGRAMS}


def test_a_compiled_function_needs_the_method_too() -> None:
    @rh.compiled
    class Quick(rh.KeyedProcessFunction):
        def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
            ctx.timers.register(5)
            yield Event(event.user, event.kind, event.value, event.at)

    with pytest.raises(rh.RheosError, match="no method on_timer"):
        events().key_by("user").process(Quick())


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        (int, "0"),
        (int, 0.5),
        (float, "0"),
        (str, 0),
        (bool, 0),
        (bytes, ""),
        (datetime, "2024-01-01"),
        (Decimal, "1"),
        (list[int], ["a"]),
        (list[int], {}),
        (dict[str, int], []),
        (Pair, {"a": 1}),
        (Pair, Pair("a", [])),  # type: ignore[arg-type]
        (int | None, "a"),
        (tuple[int, str], (1, 2)),
    ],
)
@pytest.mark.parametrize("of_trigger", [False, True])
def test_a_default_of_another_type_is_an_error(declared: Any, default: Any, of_trigger: bool) -> None:
    state = rh.ValueState(declared, default=default)
    base: type = Fires if of_trigger else Keyed
    made = type("Wrong", (base,), {"seen": state})
    with pytest.raises(rh.SchemaError) as raised:
        PROGRAMS[base](events(), events(), made())
    assert "'seen' is declared as" in raised.value.what
    assert "but its default is" in raised.value.what
    assert raised.value.site == state.site


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        (int, 0),
        (float, 0),
        (int | None, None),
        (list[int], []),
        (dict[str, int], {"a": 1}),
        (Pair, Pair(1, ["a"])),
        (object, "anything"),
        (Decimal, Decimal(1)),
        (tuple[int, str], (1, "a")),
    ],
)
def test_a_default_of_the_type_is_accepted(declared: Any, default: Any) -> None:
    made = type("Right", (Keyed,), {"seen": rh.ValueState(declared, default=default)})
    events().key_by("user").process(made())


def test_every_declaration_with_a_default_is_checked() -> None:
    declared = [
        cls
        for cls in map(rh.__getattr__, rh.__all__)
        if inspect.isclass(cls)
        and hasattr(cls, "_lives")
        and "default" in inspect.signature(cls).parameters
    ]
    assert declared == [rh.ValueState]
