"""Sinks that need no more than a name."""

from __future__ import annotations

from rheos.connectors.collect import CollectSink
from rheos.connectors.print import PrintSink


def print_sink(name: str | None = None) -> PrintSink:
    """Print each row as one line, after `name` and the subtask: `alerts[0]> {"user":7}`.

    Lines appear as rows arrive, so some appear twice after a failure. With a local master they appear
    in the terminal; on a cluster in the executors' logs.
    """
    return PrintSink(name)


def collect_sink() -> CollectSink:
    """Brings rows to the program, in memory: `result.collected[name]`, by the sink's operator name."""
    return CollectSink()
