"""Patterns of rows, step by step: `rh.pattern.begin("a").where(...).followed_by("b")...`

A pattern is a value: each method returns a new one. `KeyedStream.detect` finds its matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl

from rheos.api.pattern_checks import check_count, check_names, condition_of, step_name, waiting_part
from rheos.api.skip_strategies import (
    no_skip,
    skip_past_last_event,
    skip_to_first,
    skip_to_last,
    skip_to_next,
)
from rheos.core.errors import ProgramError
from rheos.core.graph.patterns import (
    Absence,
    AfterMatch,
    Condition,
    Contiguity,
    Group,
    Part,
    PatternStep,
    PatternTree,
    Quantifier,
    steps,
)
from rheos.core.known_names import names_hint
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import call_site, located_at_call
from rheos.core.unknown_names import HintedBase

__all__ = [
    "AfterMatch",
    "Pattern",
    "begin",
    "no_skip",
    "skip_past_last_event",
    "skip_to_first",
    "skip_to_last",
    "skip_to_next",
]

ConditionLike: TypeAlias = pl.Expr | Callable[..., bool]
"""A Polars expression, or a function of a row: `fn(row)`, or `fn(row, earlier)`, where `earlier["a"]`
is the list of the rows that step "a" of the same match has taken so far."""

_UNSAID = -1


class Pattern(HintedBase):
    """A pattern of rows. `begin` creates it, and each method returns an extended one.

    ```python
    rising = rh.pattern.begin("low").where(col("price") < 10).followed_by("high").within("10m")
    ```
    """

    def __init__(self, parts: tuple[Part, ...], after_match: AfterMatch, within_ms: int | None) -> None:
        self._parts = parts
        self._after_match = after_match
        self._within_ms = within_ms

    def __repr__(self) -> str:
        within_ms = None if self._within_ms == _UNSAID else self._within_ms
        return f"<pattern {PatternTree(self._parts, within_ms, self._after_match)}>"

    # --- steps ----------------------------------------------------------------------------------------

    @located_at_call
    def next(self, step: str | Pattern) -> Pattern:
        """Append a step that matches the very next row. If that row does not fit, there is no match.

        Args:
            step: Name of the step, or a pattern as a group.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The name is empty, or the group cannot be part of a pattern.
        """
        return self._append_step(Contiguity.NEXT, step)

    @located_at_call
    def followed_by(self, step: str | Pattern) -> Pattern:
        """Append a step that matches the next suitable row; other rows may be in between.

        Args:
            step: Name of the step, or a pattern as a group.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The name is empty, or the group cannot be part of a pattern.
        """
        return self._append_step(Contiguity.FOLLOWED_BY, step)

    @located_at_call
    def followed_by_any(self, step: str | Pattern) -> Pattern:
        """Append a step that matches any later suitable row. Each produces its own match.

        Args:
            step: Name of the step, or a pattern as a group.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The name is empty, or the group cannot be part of a pattern.
        """
        return self._append_step(Contiguity.FOLLOWED_BY_ANY, step)

    @located_at_call
    def not_next(self, name: str) -> Pattern:
        """Require that the very next row does not fulfil the conditions of `where`.

        Args:
            name: Name of the step.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The name is empty.
        """
        return self._absent(Contiguity.NEXT, name)

    @located_at_call
    def not_followed_by(self, name: str) -> Pattern:
        """Require that no row fulfils the conditions of `where` before the next step.

        At the end of the pattern, no such row may occur until the time of `within` is over.

        Args:
            name: Name of the step.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The name is empty.
        """
        return self._absent(Contiguity.FOLLOWED_BY, name)

    @located_at_call
    def where(self, *conditions: ConditionLike) -> Pattern:
        """Add conditions to the last step. A row must fulfil all conditions of all calls.

        Expressions are many times as fast as functions.

        Args:
            conditions: Boolean expressions, or functions: `fn(row)`, or `fn(row, earlier)`, where
                `earlier["a"]` is the list of the rows that step "a" has matched so far.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The last step is a group, or a condition is neither.
        """
        last = self._last
        if not isinstance(last, PatternStep | Absence):
            raise ProgramError(
                "where() applies to a step, but this is a group",
                hint="write .where(...) on the steps in the group",
            )
        asked = last.condition.both(condition_of("where", conditions))
        return self._changed(replace(last, condition=asked))

    # --- how often ------------------------------------------------------------------------------------

    @located_at_call
    def times(self, at_least: int, at_most: int | None = None) -> Pattern:
        """Repeat the last step a number of times.

        Other rows may be between the repetitions; see `consecutive` and `allow_combinations`.

        Args:
            at_least: Number of times; the minimum if `at_most` is set.
            at_most: Maximum number of times.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: A number is less than 1, the bounds are in the wrong order, or were set
                before.
        """
        if at_most is None:
            at_most = at_least
        check_count("times", at_least)
        check_count("times", at_most)
        if at_most < at_least:
            raise ProgramError(
                f"times({at_least}, {at_most}) has its bounds in the wrong order",
                hint=f"write .times({at_most}, {at_least})",
            )
        return self._quantified("times", at_least=at_least, at_most=at_most)

    @located_at_call
    def one_or_more(self) -> Pattern:
        """Repeat the last step once or more. Each further row produces another match.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The step must not occur, or its repetitions were set before.
        """
        return self._quantified("one_or_more", at_least=1, at_most=None)

    @located_at_call
    def times_or_more(self, at_least: int) -> Pattern:
        """Repeat the last step at least a number of times. Each further row produces another match.

        Args:
            at_least: Minimum number of times.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The number is less than 1, or the step's repetitions were set before.
        """
        check_count("times_or_more", at_least)
        return self._quantified("times_or_more", at_least=at_least, at_most=None)

    @located_at_call
    def optional(self) -> Pattern:
        """Allow matches without the last step.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The step must not occur.
        """
        return self._quantified("optional", optional=True)

    @located_at_call
    def greedy(self) -> Pattern:
        """Let a repeated step match as many rows as it can.

        The step after it matches no row that this one could match.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The last step is a group, or is not repeated.
        """
        last = self._last
        if isinstance(last, Group):
            raise ProgramError(
                "a group cannot be greedy", hint="call .greedy() on the repeating step inside the group"
            )
        return self._of_repeated("greedy", greedy=True)

    @located_at_call
    def consecutive(self) -> Pattern:
        """Allow no other rows between the repetitions of the last step.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The step is not repeated.
        """
        return self._of_repeated("consecutive", inner=Contiguity.NEXT)

    @located_at_call
    def allow_combinations(self) -> Pattern:
        """Allow a repeated step to skip rows that it could match. Each choice produces its own match.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The step is not repeated.
        """
        return self._of_repeated("allow_combinations", inner=Contiguity.FOLLOWED_BY_ANY)

    @located_at_call
    def until(self, condition: ConditionLike) -> Pattern:
        """End an unbounded repetition at the first row that fulfils a condition.

        Args:
            condition: A boolean expression, or a function of a row.

        Returns:
            The extended pattern.

        Raises:
            ProgramError: The last step is not repeated without an upper bound.
        """
        if self._quantifier_of("until").at_most is not None:
            raise ProgramError(
                "until() needs a step that repeats without an upper bound",
                hint="write it after .one_or_more() or .times_or_more(...)",
            )
        return self._quantified("until", until=condition_of("until", (condition,)))

    # --- the whole ------------------------------------------------------------------------------------

    @located_at_call
    def within(self, duration: Duration | None) -> Pattern:
        """Limit the time of a match: its last row must be less than this after its first.

        Args:
            duration: The limit in event time. None: no limit, so partial matches are kept forever.

        Returns:
            The pattern with the limit.

        Raises:
            ProgramError: The duration is not positive.
        """
        if duration is None:
            return Pattern(self._parts, self._after_match, None)
        within_ms = duration_ms(duration)
        if within_ms <= 0:
            raise ProgramError(
                f"within must be greater than 0, not {duration!r}",
                hint='write .within("10m"); for rows with equal timestamps, .within("1ms")',
            )
        return Pattern(self._parts, self._after_match, within_ms)

    def tree(self) -> PatternTree:
        """Return the complete pattern as data, for `KeyedStream.detect`.

        Returns:
            The pattern.

        Raises:
            ProgramError: The pattern has no time limit, or two steps of one name, or an unknown step to
                skip to.
        """
        if self._within_ms == _UNSAID:
            waiting = waiting_part(self._parts)
            if waiting is not None:
                raise ProgramError(
                    f"{waiting.name!r} has no time limit, so partial matches could be kept forever",
                    site=waiting.site,
                    hint='write .within("10m") at the end of the pattern; to keep partial matches '
                    "forever, .within(None)",
                )
        within_ms = None if self._within_ms == _UNSAID else self._within_ms
        check_names(self._parts)
        names = [step.name for step in steps(self._parts)]
        to = self._after_match.step
        if to is not None and to not in names:
            raise ProgramError(
                f"{self._after_match}: the pattern has no such step",
                site=self._parts[0].site,
                hint=names_hint(to, names, "its steps are"),
            )
        return PatternTree(self._parts, within_ms, self._after_match)

    # --- parts ----------------------------------------------------------------------------------------

    @property
    def _last(self) -> Part:
        return self._parts[-1]

    def _append_step(self, contiguity: Contiguity, step: str | Pattern) -> Pattern:
        part = _part(step, contiguity)
        return Pattern((*self._parts, part), self._after_match, self._within_ms)

    def _absent(self, contiguity: Contiguity, name: str) -> Pattern:
        absence = Absence(step_name(name), call_site(), contiguity, Condition())
        return Pattern((*self._parts, absence), self._after_match, self._within_ms)

    def _changed(self, last: Part) -> Pattern:
        return Pattern((*self._parts[:-1], last), self._after_match, self._within_ms)

    def _quantifier_of(self, method: str) -> Quantifier:
        last = self._last
        if isinstance(last, Absence):
            raise ProgramError(
                f"{method}() does not apply to {last.name!r}, which is an absence",
                hint=f"leave out .{method}()",
            )
        return last.quantifier

    def _quantified(self, method: str, **bounds: Any) -> Pattern:
        quantifier = self._quantifier_of(method)
        if "at_most" in bounds and quantifier.repeats:
            raise ProgramError(
                "the number of repetitions is already set", hint=f"leave out .{method}()"
            )
        last = self._last
        assert not isinstance(last, Absence)
        return self._changed(replace(last, quantifier=replace(quantifier, **bounds)))

    def _of_repeated(self, method: str, **bounds: Any) -> Pattern:
        if not self._quantifier_of(method).repeats:
            raise ProgramError(
                f"{method}() applies only to a step that repeats",
                hint=f"write .one_or_more() or .times(...) before .{method}()",
            )
        return self._quantified(method, **bounds)


@located_at_call
def begin(step: str | Pattern, after_match: AfterMatch | None = None) -> Pattern:
    """Begin a pattern with a step or a group.

    ```python
    rising = (
        rh.pattern.begin("low").where(col("price") < 10)
        .followed_by("high").where(col("price") > 100)
        .within("10m")
    )
    ```

    Args:
        step: Name of the first step, or a pattern as a group.
        after_match: Which other matches are discarded after a match; none by default (`no_skip()`).

    Returns:
        The pattern.

    Raises:
        ProgramError: The name is empty, the group cannot be part of a pattern, or `after_match` is not
            a strategy.
    """
    if after_match is not None and not isinstance(after_match, AfterMatch):
        raise ProgramError(
            f"begin() takes an after-match strategy, not {after_match!r}",
            hint='write begin("a", rh.pattern.skip_past_last_event())',
        )
    part = _part(step, Contiguity.FOLLOWED_BY)
    return Pattern((part,), after_match or AfterMatch(), _UNSAID)


def _part(step: str | Pattern, contiguity: Contiguity) -> PatternStep | Group:
    if not isinstance(step, Pattern):
        return PatternStep(step_name(step), call_site(), contiguity, Condition(), Quantifier())
    if step._within_ms != _UNSAID or step._after_match != AfterMatch():
        raise ProgramError(
            "a group has within() or a skip strategy, which only the whole pattern may have",
            hint="set .within(...) and the skip strategy on the whole pattern",
        )
    last = step._parts[-1]
    if isinstance(last, Absence):
        raise ProgramError(
            f"a group cannot end with {last.name!r}, which is an absence",
            site=last.site,
            hint="put that step after the group",
        )
    return Group(step._parts, call_site(), contiguity, Quantifier())
