"""Patterns of rows as plain data.

A pattern is a sequence of parts. A `PatternStep` matches rows that satisfy its condition, a `Group`
rows that match its own pattern, and a `Choice` rows that match one of several patterns. An `Absence`
forbids rows. A part's contiguity describes how it follows the previous part. `rheos.api.patterns`
builds patterns; `operators/pattern/automaton.py` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import polars as pl

from rheos.core.errors import Site


class Contiguity(Enum):
    """Rule for rows between a matched row and the next one."""

    NEXT = "next"
    """No rows are allowed."""
    FOLLOWED_BY = "followed by"
    """Rows that do not match the next step are allowed."""
    FOLLOWED_BY_ANY = "followed by any"
    """Any rows are allowed, even those that match the next step. Each such row starts an alternative
    match."""


@dataclass(frozen=True, eq=False)
class Function:
    """A condition written in Python."""

    call: Callable[..., Any]
    record: type | None
    """Class of the rows that it receives; None for lightweight named rows."""
    sees_earlier: bool
    """Whether it also receives the earlier rows of the match."""
    site: Site


@dataclass(frozen=True, eq=False)
class Condition:
    """A conjunction of conditions; without any, it is true for every row. Null counts as false."""

    exprs: tuple[pl.Expr, ...] = ()
    functions: tuple[Function, ...] = ()

    def both(self, other: Condition) -> Condition:
        return Condition(self.exprs + other.exprs, self.functions + other.functions)

    def same(self, other: Condition) -> bool:
        """Return whether both have the same form, so that they hold for the same rows."""
        return (
            len(self.exprs) == len(other.exprs)
            and all(a.meta.eq(b) for a, b in zip(self.exprs, other.exprs, strict=True))
            and [f.call for f in self.functions] == [f.call for f in other.functions]
        )

    def __bool__(self) -> bool:
        """Return whether there is any condition."""
        return bool(self.exprs or self.functions)

    def __str__(self) -> str:
        called = [getattr(f.call, "__name__", type(f.call).__name__) for f in self.functions]
        return " & ".join([*map(str, self.exprs), *called]) or "every row"


@dataclass(frozen=True, eq=False)
class Quantifier:
    """The number of consecutive repetitions of a part."""

    at_least: int = 1
    at_most: int | None = 1
    """Maximum number of repetitions; None: no limit."""
    inner: Contiguity = Contiguity.FOLLOWED_BY
    """Contiguity between one repetition and the next."""
    greedy: bool = False
    """Whether the following parts match no row that this part could match."""
    optional: bool = False
    """Whether the part may be left out."""
    reluctant: bool = False
    """Whether fewer repetitions are preferred to more, in a `preferring` pattern."""
    until: Condition | None = None
    """Condition of a row that ends the repetition: this row and later ones no longer match the part."""

    @property
    def repeats(self) -> bool:
        """Return whether the part may match several times."""
        return self.at_most != 1

    def __str__(self) -> str:
        match self.at_least, self.at_most:
            case 1, 1:
                times = ""
            case 1, None:
                times = "+"
            case least, None:
                times = f"{{{least},}}"
            case least, most if least == most:
                times = f"{{{least}}}"
            case least, most:
                times = f"{{{least},{most}}}"
        optional = "?" if not times or not self.optional else " or none"
        words = [times + optional * self.optional]
        words += ["greedy"] * self.greedy
        words += ["reluctant"] * self.reluctant
        if self.repeats and self.inner is not Contiguity.FOLLOWED_BY:
            words.append("consecutive" if self.inner is Contiguity.NEXT else "combinations")
        if self.until is not None:
            words.append(f"until [{self.until}]")
        return " ".join(word for word in words if word)


@dataclass(frozen=True, eq=False)
class PatternStep:
    """Matches rows. The match contains them under the step's name."""

    name: str
    site: Site
    contiguity: Contiguity
    condition: Condition
    quantifier: Quantifier
    shown: bool = True
    """Whether a match of a `preferring` pattern shows the step's rows. Each place of a step that occurs
    several times has its own value."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several alternatives; earlier ones are preferred. Each matches at least one row. Only in
    `preferring` patterns."""

    parts: tuple[Part, ...]
    site: Site
    contiguity: Contiguity
    quantifier: Quantifier

    @property
    def name(self) -> str:
        return "(" + " | ".join(step.name for step in steps(self.parts)) + ")"


@dataclass(frozen=True, eq=False)
class Group:
    """A pattern that is part of another one. The group's contiguity applies to its first step."""

    parts: tuple[Part, ...]
    site: Site
    contiguity: Contiguity
    quantifier: Quantifier

    @property
    def name(self) -> str:
        return "(" + ", ".join(step.name for step in steps(self.parts)) + ")"


@dataclass(frozen=True, eq=False)
class Absence:
    """Forbids rows that satisfy the condition: directly after the previously matched row (`next`), or
    up to the row that is matched next (`followed by`)."""

    name: str
    site: Site
    contiguity: Contiguity
    condition: Condition


Part: TypeAlias = PatternStep | Group | Choice | Absence


class Skip(Enum):
    """Rule that excludes other matches after a match, depending on the row at which they begin."""

    NO_SKIP = "no skip"
    """Excludes no matches."""
    TO_NEXT = "skip to next"
    """Excludes matches that begin at its first row."""
    PAST_LAST_EVENT = "skip past last event"
    """Excludes matches that begin at its last row, or earlier."""
    TO_FIRST = "skip to first"
    """Excludes matches that begin before the first row of a given step."""
    TO_LAST = "skip to last"
    """Excludes matches that begin before the last row of a given step."""


@dataclass(frozen=True)
class AfterMatch:
    skip: Skip = Skip.NO_SKIP
    step: str | None = None
    """The step for TO_FIRST and TO_LAST."""

    def __str__(self) -> str:
        return self.skip.value if self.step is None else f"{self.skip.value} {self.step!r}"


@dataclass(frozen=True)
class Previous:
    """A column of an earlier row of the same key."""

    name: str
    """Name of the column in conditions."""
    column: str
    back: int
    """Distance to the earlier row: 1 is the previous row."""


@dataclass(frozen=True)
class Following:
    """A column of a later row of the same key."""

    name: str
    """Name of the column in conditions."""
    column: str
    ahead: int
    """Distance to the later row: 1 is the next row."""


@dataclass(frozen=True, eq=False)
class PatternTree:
    """A whole pattern."""

    parts: tuple[Part, ...]
    within_ms: int | None
    """Upper bound, exclusive, of the time from a match's first row to its last. None: no limit."""
    after_match: AfterMatch
    preferring: bool = False
    """Whether only one of the matches that begin at a row is emitted, the one that a regular expression
    would find: parts repeat as often as possible, or as rarely as possible if they are reluctant. Rows
    follow each other directly, and the pattern has no absences and no `until`."""
    previous: tuple[Previous, ...] = ()
    """Columns of earlier rows that conditions read. Only preferring patterns have them, and only in
    steps before which every match has at least that many rows."""
    following: tuple[Following, ...] = ()
    """Columns of later rows that conditions read. Only preferring patterns have them. A row is matched
    when these rows have arrived, so matches are found after the watermark has passed their rows."""

    def __str__(self) -> str:
        within = [] if self.within_ms is None else [f"within {self.within_ms} ms"]
        return "; ".join([self._kind() + _text(self.parts), *within, str(self.after_match)])

    def structure(self) -> str:
        """Return the part of the pattern that partial matches depend on: names, order, contiguity and
        quantifiers, without conditions."""
        return self._kind() + _text(self.parts, conditions=False)

    def repeated(self) -> list[bool]:
        """Return for each step whether it may match several rows, by itself or through its group."""
        return [*_repeated(self.parts, False)]

    def _kind(self) -> str:
        return "one of each row: " if self.preferring else ""


def steps(parts: Sequence[Part]) -> Iterator[PatternStep]:
    """Yield all steps, in the order of the program."""
    for part in parts:
        match part:
            case PatternStep():
                yield part
            case Group() | Choice():
                yield from steps(part.parts)
            case Absence():
                pass


def _repeated(parts: Sequence[Part], inside: bool) -> Iterator[bool]:
    for part in parts:
        match part:
            case PatternStep():
                yield inside or part.quantifier.repeats
            case Group() | Choice():
                yield from _repeated(part.parts, inside or part.quantifier.repeats)
            case Absence():
                pass


def _text(parts: Sequence[Part], *, conditions: bool = True) -> str:
    words = []
    for number, part in enumerate(parts):
        follows = f"{part.contiguity.value} " if number else ""
        match part:
            case Absence():
                asked = f" [{part.condition}]" if conditions else ""
                words.append(f"not {follows}{part.name}{asked}")
            case PatternStep():
                asked = f" [{part.condition}]" if conditions else ""
                words.append(f"{follows}{part.name}{asked}{_quantified(part.quantifier, conditions)}")
            case Choice():
                inside = " | ".join(_text((each,), conditions=conditions) for each in part.parts)
                words.append(f"{follows}({inside}){_quantified(part.quantifier, conditions)}")
            case Group():
                inside = _text(part.parts, conditions=conditions)
                words.append(f"{follows}({inside}){_quantified(part.quantifier, conditions)}")
    return ", ".join(words)


def _quantified(quantifier: Quantifier, conditions: bool) -> str:
    text = str(quantifier)
    if not conditions and quantifier.until is not None:
        text = text.replace(f"until [{quantifier.until}]", "until")
    return f" {text}" if text else ""
