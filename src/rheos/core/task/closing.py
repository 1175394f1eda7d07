"""Closes several objects even if some of them fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def close_each(closes: Iterable[Callable[[], None]]) -> None:
    """Call all functions. Raise the first error, after the last call."""
    failure: Exception | None = None
    for close in closes:
        try:
            close()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
