"""Strategies for continuing after a match of a pattern."""

from __future__ import annotations

from rheos.core.graph.patterns import AfterMatch, Skip


def no_skip() -> AfterMatch:
    """Return the strategy that emits every match.

    ```python
    rh.pattern.begin("low", rh.pattern.no_skip())
    ```

    Returns:
        The strategy, for `begin`.
    """
    return AfterMatch(Skip.NO_SKIP)


def skip_to_next() -> AfterMatch:
    """Return the strategy that discards other matches that begin at the first row of a match.

    ```python
    rh.pattern.begin("low", rh.pattern.skip_to_next())
    ```

    Returns:
        The strategy, for `begin`.
    """
    return AfterMatch(Skip.TO_NEXT)


def skip_past_last_event() -> AfterMatch:
    """Return the strategy that discards matches that begin before the end of a match: none overlap.

    ```python
    rh.pattern.begin("low", rh.pattern.skip_past_last_event())
    ```

    Returns:
        The strategy, for `begin`.
    """
    return AfterMatch(Skip.PAST_LAST_EVENT)


def skip_to_first(step: str) -> AfterMatch:
    """Return the strategy that discards matches that begin before the first row of a step.

    ```python
    rh.pattern.begin("low", rh.pattern.skip_to_first("high"))
    ```

    Args:
        step: Name of a step of the pattern.

    Returns:
        The strategy, for `begin`.
    """
    return AfterMatch(Skip.TO_FIRST, step)


def skip_to_last(step: str) -> AfterMatch:
    """Return the strategy that discards matches that begin before the last row of a step.

    ```python
    rh.pattern.begin("low", rh.pattern.skip_to_last("high"))
    ```

    Args:
        step: Name of a step of the pattern.

    Returns:
        The strategy, for `begin`.
    """
    return AfterMatch(Skip.TO_LAST, step)
