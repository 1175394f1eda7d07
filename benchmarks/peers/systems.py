"""The systems that are compared, and the work that each of them does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.compare import RHEOS, measure
from benchmarks.peers.flink import VERSION, Flink
from benchmarks.peers.python_peer import PythonPeer
from benchmarks.peers.quiet_cells import Run

_EACH_EVENT = "state-machine --parallelism 2"
"""The cell in which systems for Python take part."""
_LARGE_BUNDLES = ("--bundle-rows", "100000", "--bundle-ms", "20000", "--seconds", "60")
"""For PyFlink, which writes the states of a bundle's keys one by one at the bundle's end, and waits for
Java each time. By default a bundle has 1,000 events or lasts a second, so nearly all of its events have
other keys. A large bundle takes seconds, so the measurement is long."""


@dataclass(frozen=True)
class System:
    name: str
    measure: Callable[[str, float], Run]
    """Returns the measurements of a run, from its cell and its seconds."""
    only: str | None = None
    """The one cell that it does; None for a system that does all."""


def systems(flink: Flink) -> list[System]:
    """Return all systems, Rheos first."""

    def pyflink(mode: str, *options: str) -> PythonPeer:
        return PythonPeer(
            f"apache-flink=={VERSION}",
            "pyflink_program.py",
            ("--mode", mode, "--warmup", "20", *options),
            partial(_flink_environment, flink.classes),
        )

    return [
        System("Rheos", lambda cell, seconds: measure(RHEOS, cell, seconds)),
        System("Flink", flink.measure),
        System("PyFlink, processes", pyflink("process", *_LARGE_BUNDLES).measure, _EACH_EVENT),
        System("PyFlink, threads", pyflink("thread").measure, _EACH_EVENT),
        System("Bytewax", PythonPeer("bytewax==0.21.1", "bytewax_program.py").measure, _EACH_EVENT),
    ]


def _flink_environment(classes: str, packages: Path) -> dict[str, str]:
    """Return variables by which PyFlink finds our classes, and its threads find its packages."""
    return {"HADOOP_CLASSPATH": classes, "PYTHONPATH": str(packages)}
