"""Configuration of windows before the computation is chosen: their kind, lateness, trigger and
evictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.api.expressions import check_gap
from rheos.api.transformations import Transformation
from rheos.core.callables import check_methods
from rheos.core.errors import ProgramError
from rheos.core.graph import evictors, triggers
from rheos.core.graph.state import Time
from rheos.core.graph.window_functions import Evictor, Trigger, WindowAssigner
from rheos.core.graph.windows import CountWindow, GlobalWindows, Session, Window
from rheos.core.operators.window.kinds import windows_of
from rheos.core.safe_strings import shown

WINDOW_FIELDS = [
    pa.field("window_start", pa.timestamp("ms", tz="UTC")),
    pa.field("window_end", pa.timestamp("ms", tz="UTC")),
]
"""Columns of a result between the keys and the aggregates."""


@dataclass(frozen=True)
class WindowsOfKeys:
    """Configuration of the windows of a stream, without the computation."""

    window: Window | WindowAssigner
    lateness_ms: int = 0
    trigger: Trigger | None = None
    evictor: Evictor | None = None

    @property
    def time(self) -> Time | None:
        """Clock that ends the windows; None if they do not end."""
        if isinstance(self.window, GlobalWindows | CountWindow):
            return None
        return self.window.time

    @property
    def merges(self) -> bool:
        window = self.window
        return window.merges if isinstance(window, WindowAssigner) else isinstance(window, Session)

    @property
    def in_columns(self) -> bool:
        """Whether the windows fire only when they end, so that they are computed on columns."""
        plain = self.trigger is None and self.evictor is None and self.time is not None
        if isinstance(self.window, Session) and self.window.gap_of_rows is not None:
            return False
        return plain and not isinstance(self.window, WindowAssigner)

    @property
    def name(self) -> str:
        window = self.window
        return type(window).__name__ if isinstance(window, WindowAssigner) else str(window)

    def fired_by(self) -> tuple[Trigger, Evictor | None]:
        """Return the trigger and the evictor, or the defaults. Raise ProgramError if they do not fit
        the windows."""
        trigger, evictor, window = self.trigger, self.evictor, self.window
        if isinstance(window, CountWindow):
            if trigger is not None or evictor is not None:
                raise ProgramError(
                    "count windows have a fixed trigger and evictor",
                    hint="set your own on .window(rh.GlobalWindows())",
                )
            if window.size_rows == window.every_rows:
                return triggers.purging(triggers.count(window.size_rows)), None
            return triggers.count(window.every_rows), evictors.count(window.size_rows)
        if trigger is None and isinstance(window, WindowAssigner):
            trigger = window.default_trigger()
        if trigger is None:
            match self.time:
                case "event_time":
                    trigger = triggers.event_time()
                case "processing_time":
                    trigger = triggers.processing_time()
                case None:
                    raise ProgramError(
                        "global windows never end, so they need a trigger",
                        hint="set one: .window(rh.GlobalWindows()).trigger(rh.triggers.count(100))",
                    )
        unmerging = trigger.unmerging() if self.merges else None
        if unmerging is not None:
            raise ProgramError(
                f"{type(unmerging).__name__} does not support merging, but {self.name} windows merge",
                hint="define its on_merge(ctx): join the state of the merged windows (ctx.merged()) "
                "there, and set the timers of the new window",
            )
        return trigger, evictor


def check_window(rows: Transformation, window: Any) -> WindowsOfKeys:
    """Check the argument of `window` for a stream. Raise ProgramError or SchemaError."""
    if isinstance(window, type) and issubclass(window, Window | WindowAssigner):
        raise ProgramError(
            f"window() takes an instance, not the class {window.__name__}",
            hint=f"write .window({window.__name__}(...))",
        )
    if not isinstance(window, Window | WindowAssigner):
        raise ProgramError(
            f"window() takes a window, not {shown(window)}",
            hint='write .window(rh.Tumbling("1m")), .window(rh.Sliding("1h", every="10m")) or '
            '.window(rh.Session(gap="10m"))',
        )
    windows = WindowsOfKeys(window)
    if isinstance(window, WindowAssigner):
        check_methods(window, WindowAssigner, "window")
    if isinstance(window, Window):
        window.check()
        if isinstance(window, Session) and window.gap_of_rows is not None:
            check_gap(window.gap_of_rows, rows.type.schema)
        elif windows.time is not None:
            windows_of(window)
    if windows.time == "event_time":
        rows.go_by_event_time("a window")
    return windows
