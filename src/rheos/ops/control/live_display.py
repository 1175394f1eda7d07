"""A job in a notebook: its picture below the cell, made anew every second until the job has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

EVERY_S = 1.0


class Shown(Protocol):
    """What IPython gives for something that is displayed."""

    def update(self, obj: Any, **kwargs: Any) -> None: ...


class LiveDisplay:
    """Only the newest display of a job goes on; what an older one shows stays as it was last."""

    def __init__(self, bundle: Callable[[], dict[str, str]], ended: Callable[[float], bool]) -> None:
        """`bundle` gives what is shown, by MIME type; `ended` waits so long, in seconds, for the end of
        the job, and says whether it has come."""
        self._bundle = bundle
        self._ended = ended
        self._newest: Shown | None = None

    def show(self) -> None:
        """Called by IPython, and so where it is installed."""
        from IPython.display import display

        untyped: Any = display
        shown = untyped(self._bundle(), raw=True, display_id=True)
        self._newest = shown
        threading.Thread(target=self._keep, args=(shown,), name="rheos-notebook", daemon=True).start()

    def _keep(self, shown: Shown) -> None:
        over = False
        while not over and shown is self._newest:
            over = self._ended(EVERY_S)
            if shown is self._newest:
                shown.update(self._bundle(), raw=True)
