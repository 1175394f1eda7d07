"""Functions passed to methods: each method refuses a function that it cannot call, at its line, when
the program is built."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import rheos as rh
from rheos.api.connected_streams import ConnectedStreams, KeyedConnectedStreams
from rheos.api.keyed_stream import KeyedStream
from rheos.api.streams import DataStream
from rheos.api.windowed_stream import WindowedStream
from rheos.core import callables

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]

OUT = {"n": int}


@dataclass
class Out:
    n: int


ENV = rh.Environment(1, runtime="simulated")


def stream() -> rh.DataStream:
    rows = [{"k": 1, "n": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}]
    return ENV.from_source(rh.collection(rows), watermark=rh.Watermark.monotonic(on="at"))


def keyed() -> rh.KeyedStream:
    return stream().key_by("k")


def windows() -> rh.WindowedStream:
    return keyed().window(rh.Tumbling("1m"))


# --- plain functions ------------------------------------------------------------------------------

PLAIN: dict[str, tuple[Callable[[Any], Any], int]] = {
    "map": (lambda fn: stream().map(fn, returns=OUT), 1),
    "flat_map": (lambda fn: stream().flat_map(fn, returns=OUT), 1),
    "filter": (lambda fn: stream().filter(fn), 1),
    "map_batches": (lambda fn: stream().map_batches(fn, returns=OUT), 1),
    "on_timeout": (lambda fn: stream().map_async(ask, returns=OUT, on_timeout=fn), 1),
    "partition_by": (lambda fn: stream().partition_by(fn, on="n"), 2),
    "partition_by, an expression": (lambda fn: stream().partition_by(fn), 1),
    "iterate": (lambda fn: stream().iterate(fn, rounds=3), 1),
    "reduce": (lambda fn: keyed().reduce(fn), 2),
    "reduce of windows": (lambda fn: windows().reduce(fn), 2),
    "connect.map": (lambda fn: stream().connect(stream()).map(fn, fn, returns=OUT), 1),
    "connect.flat_map": (lambda fn: stream().connect(stream()).flat_map(fn, fn, returns=OUT), 1),
    "evictors.delta": (lambda fn: rh.evictors.delta(fn, 1), 1),
    "gap of a session": (lambda fn: keyed().window(rh.Session(gap=fn)), 1),
    "condition of a pattern": (lambda fn: rh.pattern.begin("a").where(fn), 1),
    "until of a pattern": (lambda fn: rh.pattern.begin("a").one_or_more().until(fn), 1),
    "generator": (lambda fn: rh.generator(fn, count=1, schema=OUT), 1),
    "register_function": (
        lambda fn: rh.Environment(1).register_function("mine", fn, returns=float),
        0,
    ),
}
"""By method: how it is called with a function, and how many arguments it passes to it."""


async def ask(row: Any) -> Any:
    return row


async def asks(*row: Any) -> Any:
    return row


async def asks_many(*row: Any) -> AsyncIterator[Any]:
    yield row


def yields(*row: Any) -> Any:
    yield row


class Called:
    async def __call__(self, *row: Any) -> Any:
        return row


class Opened:
    async def open(self) -> None:
        pass

    def __call__(self, *row: Any) -> Any:
        return row


def refused(call: Callable[[], Any], *says: str) -> None:
    with pytest.raises(rh.ProgramError) as raised:
        call()
    text = str(raised.value)
    assert text.startswith(f"{__file__}:"), text
    for each in says:
        assert each in text, text


@pytest.mark.parametrize("method", PLAIN)
@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (asks, "asks is asynchronous"),
        (partial(asks, 1), "asks is asynchronous"),
        (asks_many, "asks_many is an asynchronous generator"),
        (Called(), "is asynchronous"),
        (Called, "Called"),
        (Opened(), "Opened.open is asynchronous, but"),
        (7, "7"),
    ],
)
def test_a_callable_that_is_not_a_plain_function_is_refused(method: str, fn: Any, says: str) -> None:
    refused(lambda: PLAIN[method][0](fn), says)


@pytest.mark.parametrize("method", PLAIN)
def test_a_generator_is_refused_if_a_value_is_expected(method: str) -> None:
    if "flat_map" in method:
        PLAIN[method][0](yields)
    else:
        refused(lambda: PLAIN[method][0](yields), "yields")


@pytest.mark.parametrize("method", [name for name, (_, takes) in PLAIN.items() if takes])
@pytest.mark.parametrize("more", [-1, 2])
def test_a_function_with_the_wrong_arguments_is_refused(method: str, more: int) -> None:
    call, takes = PLAIN[method]
    names = ", ".join("abcdef"[: takes + more])
    refused(lambda: call(eval(f"lambda {names}: None")), "arguments" if "pattern" in method else "")


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "reduce", "map_async"])
@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("Missing", "import Missing"),
        ("typing.Nothing", "AttributeError"),
        ("list[", "SyntaxError"),
        ("'a' | None", "TypeError"),
    ],
)
def test_an_annotation_that_cannot_be_resolved_is_refused(
    method: str, annotation: str, says: str
) -> None:
    def fn(row: Any, other: Any = None) -> Any:
        return row

    async def awaited(row: Any) -> Any:
        return row

    called: Any = awaited if method == "map_async" else fn
    called.__annotations__ = {"row": annotation}
    name = called.__name__
    calls: dict[str, Callable[[], Any]] = {
        "map": lambda: stream().map(called, returns=OUT),
        "flat_map": lambda: stream().flat_map(called, returns=OUT),
        "filter": lambda: stream().filter(called),
        "reduce": lambda: keyed().reduce(called),
        "map_async": lambda: stream().map_async(called, returns=OUT),
    }
    refused(calls[method], "parameter 'row'", name, says)


def test_a_field_annotation_that_cannot_be_resolved_is_refused() -> None:
    @dataclass
    class Row:
        n: Missing

    refused(lambda: stream().map(lambda row: row, returns=Row), "Row", "Missing")


# --- function objects -----------------------------------------------------------------------------

BASES: dict[type, Callable[[Any], Any]] = {
    rh.KeyedProcessFunction: lambda fn: keyed().process(fn, returns=OUT),
    rh.KeyedBatchFunction: lambda fn: keyed().process(fn, returns=OUT),
    rh.ProcessFunction: lambda fn: stream().process(fn, returns=OUT),
    rh.CoMapFunction: lambda fn: stream().connect(stream()).map(fn, returns=OUT),
    rh.CoFlatMapFunction: lambda fn: stream().connect(stream()).flat_map(fn, returns=OUT),
    rh.CoProcessFunction: lambda fn: stream().connect(stream()).process(fn, returns=OUT),
    rh.KeyedCoProcessFunction: lambda fn: keyed().connect(keyed()).process(fn, returns=OUT),
    rh.BroadcastProcessFunction: lambda fn: (
        stream().connect(stream().broadcast()).process(fn, returns=OUT)
    ),
    rh.KeyedBroadcastProcessFunction: lambda fn: (
        keyed().connect(stream().broadcast()).process(fn, returns=OUT)
    ),
    rh.WindowFunction: lambda fn: windows().process(fn, returns=OUT),
    rh.CoGroupFunction: lambda fn: keyed().co_group(keyed(), rh.Tumbling("1m"), fn, returns=OUT),
    rh.AggregateFunction: lambda fn: windows().aggregate(fn, returns=OUT),
    rh.Trigger: lambda fn: windows().trigger(fn),
    rh.Evictor: lambda fn: windows().evictor(fn),
    rh.WindowAssigner: lambda fn: keyed().window(fn),
    rh.WatermarkGenerator: lambda fn: stream().with_event_time(rh.Watermark.generator(fn, on="at")),
    rh.AsyncFunction: lambda fn: stream().map_async(fn, returns=OUT),
    rh.RichFunction: lambda fn: stream().map(fn, returns=OUT),
}


def methods(base: type) -> list[str]:
    found = {name: fn for cls in reversed(base.__mro__) for name, fn in vars(cls).items()}
    return [n for n, fn in found.items() if inspect.isfunction(fn) and not n.startswith("_")]


CASES = [(base, name) for base in BASES for name in methods(base)]


def defined(base: type, changed: str, to: Any) -> Any:
    """Return an instance of a class in which one method is defined wrongly."""
    needed = {
        name: getattr(base, name)
        for name in methods(base)
        if name not in ("open", "close", "on_periodic", "parts", "unmerging", "default_trigger")
    }
    own = {name: _like(fn) for name, fn in needed.items()}
    return type("Mine", (base,), {**own, changed: to})()


def _like(declared: Any) -> Any:
    names = ", ".join(inspect.signature(declared).parameters)
    how = "async def" if inspect.iscoroutinefunction(declared) else "def"
    around: dict[str, Any] = {}
    exec(f"{how} fn({names}):\n    return None", around)
    fn = around["fn"]
    fn.__annotations__ = {"return": int} if declared.__name__ == "create_accumulator" else {}
    return fn


@pytest.mark.parametrize(("base", "name"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_methods_that_are_async_or_have_wrong_arguments_are_refused(base: type, name: str) -> None:
    async def awaits(self: Any, *args: Any) -> Any:
        return None

    def of_none() -> Any:
        return None

    awaits.__annotations__ = {"return": int} if name == "create_accumulator" else {}
    if base is not rh.AsyncFunction:
        refused(lambda: BASES[base](defined(base, name, awaits)), name, "asynchronous")
    if name not in ("open", "close") and base is not rh.RichFunction:
        of_none.__annotations__ = awaits.__annotations__
        refused(lambda: BASES[base](defined(base, name, of_none)), "Mine")


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_a_class_instead_of_an_instance_is_refused(base: type) -> None:
    cls = type(defined(base, "extra", None))
    refused(lambda: BASES[base](cls), "Mine")


# --- no method is left out ------------------------------------------------------------------------


def test_each_method_that_takes_a_function_is_in_a_table() -> None:
    """Check methods with a parameter that is annotated with a callable or a function class."""
    tested = {name.split()[0].split(",")[0].rpartition(".")[2] for name in PLAIN}
    tested |= {"process", "aggregate", "trigger", "evictor", "co_group", "window", "map_async"}
    tested |= {"call_once"}
    of = (DataStream, KeyedStream, WindowedStream, ConnectedStreams, KeyedConnectedStreams)
    found = set()
    for cls in of:
        for name, fn in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_"):
                continue
            said = [str(a) for p, a in fn.__annotations__.items() if p != "return"]
            if any("Callable" in each or "Function" in each for each in said):
                found.add(name)
    assert found <= tested, found - tested
    assert {"map", "reduce", "process", "filter"} <= found
    exported = {
        getattr(rh, name)
        for name in rh.__all__
        if isinstance(getattr(rh, name, None), type) and name.endswith("Function")
    }
    assert exported <= set(BASES), exported - set(BASES)
    assert typing.get_type_hints(callables.check_callable)
