"""Functions that cannot be sent to a worker are an error at their line, even in the simulated
runtime."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import Site
from rheos.core.operators.sink import SinkSpec
from rheos.runtimes.host import pickling
from rheos.runtimes.host.pickling import pack
from rheos.testing import Faults, MemorySink, simulate


@dataclass
class Event:
    n: int


class Locked(rh.KeyedProcessFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
        with self.lock:
            yield event


def program(fn: rh.KeyedProcessFunction) -> tuple[rh.Environment, rh.DataStream]:
    env = rh.Environment(1, runtime="simulated")
    events = env.from_source(rh.collection([Event(1)], schema=Event))
    return env, events.key_by("n").process(fn)


def test_unpicklable_programs_are_refused_in_simulation_too() -> None:
    env, stream = program(Locked())
    stream.sink_to(MemorySink())
    with pytest.raises(rh.ProgramError) as simulated:
        env.execute()
    operators = env.plan().operators()
    sent = [planned for planned in operators if not isinstance(planned.spec, SinkSpec)]
    with pytest.raises(rh.ProgramError) as real:
        pack([planned.spec for planned in sent], sent)
    assert str(simulated.value) == str(real.value)
    [site] = [planned.site for planned in sent if planned.name == simulated.value.operator]
    assert isinstance(site, Site)
    assert simulated.value.site == site
    assert site.file == __file__
    assert "cannot be sent to the workers: cannot pickle '_thread.lock' object" in simulated.value.what
    assert "open()" in str(simulated.value.hint)


def test_pickling_does_not_import_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's pickler is one file, which is loaded by itself."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, pickling._BY_ITSELF, raising=False)

    def build(env: rh.Environment) -> rh.DataStream:
        events = env.from_source(rh.collection([Event(1)], schema=Event))
        return events.key_by("n").process(Locked())

    with pytest.raises(rh.ProgramError, match=r"_thread\.lock"):
        simulate(build, faults=Faults(until_us=0))
    add = 2
    assert pickle.loads(pack(lambda n: n + add))(3) == 5
    assert "pyspark" not in sys.modules
    assert pickling._BY_ITSELF in sys.modules


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_all_runtimes_name_operator_and_line_of_the_function() -> None:
    told = set()
    for runtime in ("simulated", "continuous", "batch"):
        env = rh.Environment(1, runtime=runtime)
        lock = threading.Lock()

        def locked(event: Event, lock: Any = lock) -> Event:
            with lock:
                return event

        env.from_source(rh.collection([Event(1)], schema=Event)).map(locked).collect("out")
        with pytest.raises(rh.ProgramError) as raised:
            env.execute("locked")
        told.add(str(raised.value))
    [text] = told
    assert text.startswith(f"{__file__}:")
    assert "operator 'map(" in text.splitlines()[0]
