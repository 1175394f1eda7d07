"""Patterns of rows as plain data: what is looked for, step by step.

A pattern is a sequence of parts. A `PatternStep` takes rows that fulfil its condition, a `Group` takes
rows by a pattern of its own, a `Choice` by one of several, an `Absence` says which rows may not come.
How a part follows the one before it is its contiguity. `rheos.api.patterns` writes patterns;
`operators/pattern/automaton.py` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import polars as pl

from rheos.core.errors import Site


class Contiguity(Enum):
    """Which rows may lie between a row that was taken and the next one that is."""

    NEXT = "next"
    """None."""
    FOLLOWED_BY = "followed by"
    """Such as the next step does not take."""
    FOLLOWED_BY_ANY = "followed by any"
    """Any, also those that the next step could have taken: it takes each of them, one by one."""


@dataclass(frozen=True, eq=False)
class Function:
    """A condition in Python."""

    call: Callable[..., Any]
    record: type | None
    """What it is given rows as; None: light named rows."""
    sees_earlier: bool
    """Whether it is given the rows that the match has taken before, too."""
    site: Site


@dataclass(frozen=True, eq=False)
class Condition:
    """Holds where all of its parts do; without any, for every row. Null is false."""

    exprs: tuple[pl.Expr, ...] = ()
    functions: tuple[Function, ...] = ()

    def both(self, other: Condition) -> Condition:
        return Condition(self.exprs + other.exprs, self.functions + other.functions)

    def same(self, other: Condition) -> bool:
        """Whether they are written alike, so that they hold for the same rows."""
        return (
            len(self.exprs) == len(other.exprs)
            and all(a.meta.eq(b) for a, b in zip(self.exprs, other.exprs, strict=True))
            and [f.call for f in self.functions] == [f.call for f in other.functions]
        )

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.exprs or self.functions)

    def __str__(self) -> str:
        called = [getattr(f.call, "__name__", type(f.call).__name__) for f in self.functions]
        return " & ".join([*map(str, self.exprs), *called]) or "every row"


@dataclass(frozen=True, eq=False)
class Quantifier:
    """How often a part is taken, in a row."""

    at_least: int = 1
    at_most: int | None = 1
    """None: as often as there are rows for it."""
    inner: Contiguity = Contiguity.FOLLOWED_BY
    """From one time to the next."""
    greedy: bool = False
    """What comes behind takes no row that the part could take."""
    optional: bool = False
    """It may also be left out."""
    reluctant: bool = False
    """Where the pattern is `preferring`: it is rather taken fewer times than more."""
    until: Condition | None = None
    """From the first such row on it takes no more."""

    @property
    def repeats(self) -> bool:
        """Whether it may be taken several times."""
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
    """Takes rows, and gives them to the match under its name."""

    name: str
    site: Site
    contiguity: Contiguity
    condition: Condition
    quantifier: Quantifier
    shown: bool = True
    """Where the pattern is `preferring`: whether the rows that it takes are among those that a match
    shows. It may stand at several places, and at each it says so anew."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several parts, the first of them rather than the others. Each takes a row at least. Of
    patterns that are `preferring`."""

    parts: tuple[Part, ...]
    site: Site
    contiguity: Contiguity
    quantifier: Quantifier

    @property
    def name(self) -> str:
        return "(" + " | ".join(step.name for step in steps(self.parts)) + ")"


@dataclass(frozen=True, eq=False)
class Group:
    """A pattern that is a part of another one. How its first step follows is the group's to say."""

    parts: tuple[Part, ...]
    site: Site
    contiguity: Contiguity
    quantifier: Quantifier

    @property
    def name(self) -> str:
        return "(" + ", ".join(step.name for step in steps(self.parts)) + ")"


@dataclass(frozen=True, eq=False)
class Absence:
    """No row of this condition comes: none directly behind the row that was taken before (`next`), or
    none up to the one that is taken next (`followed by`)."""

    name: str
    site: Site
    contiguity: Contiguity
    condition: Condition


Part: TypeAlias = PatternStep | Group | Choice | Absence


class Skip(Enum):
    """Which other matches a match that was found rules out: by the row that they begin at."""

    NO_SKIP = "no skip"
    """None."""
    TO_NEXT = "skip to next"
    """Those that begin at the row that it begins at."""
    PAST_LAST_EVENT = "skip past last event"
    """Those that begin at its last row, or before."""
    TO_FIRST = "skip to first"
    """Those that begin before the first row of one of its steps."""
    TO_LAST = "skip to last"
    """Those that begin before the last row of one of its steps."""


@dataclass(frozen=True)
class AfterMatch:
    skip: Skip = Skip.NO_SKIP
    step: str | None = None
    """Of TO_FIRST and TO_LAST."""

    def __str__(self) -> str:
        return self.skip.value if self.step is None else f"{self.skip.value} {self.step!r}"


@dataclass(frozen=True)
class Previous:
    """A column of a row that came before, of the same key."""

    name: str
    """By which expressions of conditions know it."""
    column: str
    back: int
    """How many rows before; the next is 1."""


@dataclass(frozen=True, eq=False)
class PatternTree:
    """A whole pattern."""

    parts: tuple[Part, ...]
    within_ms: int | None
    """From the first row of a match to its last, less than this. None: however long it takes."""
    after_match: AfterMatch
    preferring: bool = False
    """Of the matches that begin at one row only one is given, as a regular expression finds it: what
    repeats is taken as often as it can be, or as seldom where it is reluctant. Rows follow each other
    directly, and there are neither absences nor `until`."""
    previous: tuple[Previous, ...] = ()
    """Columns that conditions ask besides those of the row. Of a preferring pattern, and for steps that
    have so many rows of the match before them in every match."""

    def __str__(self) -> str:
        within = [] if self.within_ms is None else [f"within {self.within_ms} ms"]
        return "; ".join([self._kind() + _text(self.parts), *within, str(self.after_match)])

    def structure(self) -> str:
        """What partial matches depend on: names, order, contiguity and how often, but no conditions."""
        return self._kind() + _text(self.parts, conditions=False)

    def repeated(self) -> list[bool]:
        """By step: whether it may take several rows, itself or with its group."""
        return [*_repeated(self.parts, False)]

    def _kind(self) -> str:
        return "one of each row: " if self.preferring else ""


def steps(parts: Sequence[Part]) -> Iterator[PatternStep]:
    """All steps, in the order of writing."""
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
