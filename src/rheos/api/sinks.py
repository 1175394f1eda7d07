"""Sinks that need at most a name."""

from __future__ import annotations

from rheos.connectors.collect import CollectSink
from rheos.connectors.print import PrintSink


def print_sink(name: str | None = None) -> PrintSink:
    """Print each row as one line, after `name` and the subtask: `alerts[0]> {"user":7}`.

    The sink prints rows as they arrive, so it prints some twice after a failure. With a local master
    the lines appear in the terminal, on a cluster in the executors' logs.

    ```python
    events.sink_to(rh.print_sink("events"))
    ```

    Args:
        name: Prefix of each line; none by default.

    Returns:
        The sink, for `stream.sink_to`.
    """
    return PrintSink(name)


def collect_sink() -> CollectSink:
    """Create a sink that brings its rows to the program's memory.

    ```python
    events.sink_to(rh.collect_sink(), name="events")
    table = env.execute("try it").collected["events"]
    ```

    Returns:
        The sink. `JobResult.collected` has its rows as a pyarrow Table, by the name of its operator.
    """
    return CollectSink()
