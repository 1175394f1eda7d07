"""`os._exit` in a user's function, as an exception: it would end the worker without a word, and the job
would restart, and come to it again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def os_exit_raises() -> Iterator[None]:
    """Within it, `os._exit` raises SystemExit in the calling thread, as `sys.exit` does. Other threads,
    and processes that are forked from this one, end by it as they ever did."""
    end, here = os._exit, (os.getpid(), threading.get_ident())

    def leave(status: int) -> None:
        if (os.getpid(), threading.get_ident()) == here:
            raise SystemExit(f"os._exit({status})")
        end(status)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = end
