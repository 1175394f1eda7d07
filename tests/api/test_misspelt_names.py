"""Every look-up by a name that a user writes lists the names that exist, and the similar one first."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos import testing
from rheos.core.metrics.counters import ENGINE_COUNTERS
from rheos.runtimes.driver.collected_results import EarlierResults
from tests.api.programs import EVENTS, Alert, Event, environment, events


class Watch(rh.KeyedProcessFunction):
    side_outputs = {"alerts": Alert}

    def open(self, ctx: rh.RuntimeContext) -> None:
        self.good = ctx.counter("good")
        self.values = ctx.accumulator("values")
        self.ctx = ctx

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
        self.good.add()
        return [event]


def finished() -> rh.JobResult:
    env = environment()
    events(env).key_by("user").process(Watch()).name("watch").collect("rows")
    return env.execute("misspelt")


RESULT = finished()
OF_OUTPUTS = testing.simulate(
    lambda env: env.from_source(rh.collection(EVENTS)).filter(rh.col("value") > 0),
    faults=testing.Faults(),
)

SKIPPING = rh.pattern.begin("first", rh.pattern.skip_to_last("frist")).where(rh.col("value") > 0)


def harness() -> testing.Harness:
    return testing.Harness(lambda clicks: clicks.key_by("user").running(n=rh.agg.count()), Event)


def running(call: Callable[[Watch, Any], Any]) -> None:
    """Run a function that makes the call."""

    class Calls(Watch):
        def process_element(self, event: Event, ctx: rh.KeyedContext) -> list[Event]:
            call(self, ctx)
            return []

    env = environment()
    events(env).key_by("user").process(Calls()).collect("rows")
    env.execute("misspelt")


READ_IT = "CREATE TABLE o (a INT) WITH ('connector' = 'print'); INSERT INTO o SELECT a FROM t"


class Route(rh.ProcessFunction):
    side_outputs = {"alerts": Alert}

    def process_element(self, event: Event, ctx: rh.ProcessContext) -> list[Event]:
        ctx.output("alert", Alert("ann", 1))
        return []


def running_without_key() -> None:
    env = environment()
    events(env).process(Route()).collect("rows")
    env.execute("misspelt")


LOOK_UPS: dict[str, tuple[Callable[[], Any], str]] = {
    "JobResult.collected": (lambda: RESULT.collected["row"], "rows"),
    "JobResult.collected of a finished job": (
        lambda: EarlierResults(rh.JobHandle, ["rows"])["row"],  # type: ignore[arg-type]
        "rows",
    ),
    "JobResult.counter": (lambda: RESULT.counter("watch", "god"), "good"),
    "JobResult.counter of an operator": (lambda: RESULT.counter("wacth", "good"), "watch"),
    "JobResult.counter of the engine": (lambda: RESULT.counter("watch", "laet"), "late"),
    "JobResult.accumulator": (lambda: RESULT.accumulator("watch", "vlaues"), "values"),
    "Simulated.rows": (lambda: OF_OUTPUTS.rows["outt"], "out"),
    "Simulated.tables": (lambda: OF_OUTPUTS.tables["outt"], "out"),
    "Harness.take": (lambda: harness().take("outt"), "out"),
    "Harness.give": (lambda: harness().give(to="inn"), "in"),
    "Harness.watermark": (lambda: harness().watermark("1s", of="inn"), "in"),
    "DataStream.side_output": (
        lambda: events().key_by("user").process(Watch()).side_output("alert"),
        "alerts",
    ),
    "DataStream.select": (lambda: events().select("usr"), "user"),
    "DataStream.key_by": (lambda: events().key_by("usr"), "user"),
    "KeyedContext.output": (
        lambda: running(lambda fn, ctx: ctx.output("alert", Alert("ann", 1))),
        "alerts",
    ),
    "ProcessContext.output": (running_without_key, "alerts"),
    "RuntimeContext.file": (lambda: running(lambda fn, ctx: fn.ctx.file("model")), "no files"),
    "Environment.parameters": (
        lambda: rh.Environment(parameters={"threshold": 1}).parameters.int("treshold"),
        "threshold",
    ),
    "Environment.sql": (lambda: in_sql("SELECT * FROM event"), "events"),
    "Environment.sql of columns": (lambda: in_sql("SELECT usr FROM events"), "user"),
    "Environment.sql of functions": (lambda: in_sql("SELECT uper(user) FROM events"), "upper"),
    "SQL connectors": (lambda: in_sql("CREATE TABLE t (a INT) WITH ('connector' = 'kafak')"), "kafka"),
    "SQL options": (
        lambda: in_sql("CREATE TABLE t (a INT) WITH ('connector' = 'files', 'pth' = 'x'); " + READ_IT),
        "path",
    ),
    "SQL formats": (
        lambda: in_sql(
            "CREATE TABLE t (a INT) WITH ('connector' = 'files', 'path' = 'x', 'format' = 'jsn'); "
            + READ_IT
        ),
        "json",
    ),
    "zone of a window": (
        lambda: events().key_by("user").window(rh.Tumbling("1d", zone="Europe/Berlinn")),
        "Europe/Berlin",
    ),
    "step of a pattern": (lambda: events().key_by("user").detect(SKIPPING.within("1m")), "first"),
}


def in_sql(statement: str) -> Any:
    env = environment()
    env.register("events", events(env))
    run = env.sql if statement.startswith("SELECT") else env.sql_script
    return run(statement)


@pytest.mark.parametrize("place", LOOK_UPS)
def test_a_misspelt_name_is_an_error_with_the_name_that_exists(place: str) -> None:
    look_up, wanted = LOOK_UPS[place]
    with pytest.raises(rh.RheosError) as raised:
        look_up()
    error = raised.value
    while isinstance(error.__cause__, rh.RheosError):
        error = error.__cause__
    assert wanted in (error.hint or ""), str(error)


def test_names_that_exist_are_found() -> None:
    assert RESULT.counter("watch", "good") == len(EVENTS)
    assert RESULT.counter("watch", "late") == 0
    assert RESULT.accumulator("watch", "values").n == 0
    assert RESULT.collected["rows"].num_rows == len(EVENTS)


NAMES = ("operator", "tag", "output")
"""Parameters that select something by its name, in the methods of public classes."""


def test_every_method_that_takes_a_name_is_in_the_list() -> None:
    found = {
        f"{cls.__name__}.{name}"
        for of in (rh, testing)
        for cls in map(of.__getattr__, of.__all__)
        if inspect.isclass(cls) and not issubclass(cls, BaseException)
        for name, method in vars(cls).items()
        if not name.startswith("_") and inspect.isfunction(method)
        if any(each in inspect.signature(method).parameters for each in NAMES)
    }
    assert found <= {*LOOK_UPS}, "write an error that lists the names, and add a line to LOOK_UPS"


def test_counters_of_the_engine_are_listed() -> None:
    source = Path(rh.__file__).parent
    counted = {
        name
        for folder in ("core/operators", "core/task", "connectors")
        for path in (source / folder).rglob("*.py")
        for name in re.findall(
            r"""(?<!agg\.)(?<!triggers)\b_?count\("([a-z_]+)\"[,)]""", path.read_text()
        )
    }
    assert counted > {"late", "timeouts", "files_closed_early"}
    assert counted <= ENGINE_COUNTERS
