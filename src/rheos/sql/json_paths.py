"""Paths into JSON documents: of GET_JSON_OBJECT, of VARIANT, and of the SQL standard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from rheos.sql.json_documents import Document, Members, Number, java_number, written

# --- GET_JSON_OBJECT ----------------------------------------------------------------------------------


class SparkStep(Enum):
    """A step that is no name and no index."""

    EACH_ELEMENT = auto()
    NOTHING = auto()
    """`.*`, which Spark parses, but which never finds a member."""


SparkPath: TypeAlias = tuple[str | int | SparkStep, ...]
_SPARK_STEP = re.compile(
    r"""\s*(?:
        (?P<nothing>\.\*|\['\*'\])
        | \.\s*(?P<name>[^.\[\s][^.\[]*) | \['\s*(?P<quoted>[^'?\s][^'?]*)\s*'\]
        | \[\s*(?:(?P<each>\*)|(?P<index>[0-9]+))\s*\]
    )""",
    re.VERBOSE,
)


def spark_path(text: str) -> SparkPath | None:
    """Parse a path such as `$.a['b c'][0][*].d`; None if Spark would not accept it."""
    if not text.startswith("$"):
        return None
    place, steps = 1, list[str | int | SparkStep]()
    while text[place:].strip():
        found = _SPARK_STEP.match(text, place)
        if found is None:
            return None
        place = found.end()
        if found["nothing"]:
            steps.append(SparkStep.NOTHING)
        elif found["each"]:
            steps.append(SparkStep.EACH_ELEMENT)
        elif found["index"]:
            steps.append(int(found["index"]))
        else:
            steps.append(found["name"] or found["quoted"])
    return tuple(steps)


class _Style(Enum):
    RAW = auto()
    """A string is written without quotes."""
    QUOTED = auto()
    FLAT = auto()
    """Arrays are written as their elements."""


def spark_found(value: Document, path: SparkPath) -> str | None:
    """Return what GET_JSON_OBJECT finds, as it writes it."""
    found, parts = _evaluated(value, path, _Style.RAW)
    return ",".join(parts) if found else None


def _evaluated(value: Document, path: SparkPath, style: _Style) -> tuple[bool, list[str]]:
    """Return whether something is found, and the values that are written."""
    each = SparkStep.EACH_ELEMENT
    match value, path:
        case str(), () if style is _Style.RAW and not isinstance(value, Number):
            return True, [value]
        case list(), () if style is _Style.FLAT:
            return _of_elements(value, (), _Style.FLAT)
        case _, ():
            return True, [written(value, java_number)]
        case Members(), (str() as name, *rest):
            for key, member in value.pairs:
                if key == name and member is not None:
                    found, parts = _evaluated(member, tuple(rest), style)
                    if found:
                        return found, parts
            return False, []
        case Members(), _:
            return False, []
        case list(), (SparkStep.EACH_ELEMENT, SparkStep.EACH_ELEMENT, *rest):
            found, parts = _of_elements(value, tuple(rest), _Style.FLAT)
            return found, ["[" + ",".join(parts) + "]"]
        case list(), (SparkStep.EACH_ELEMENT, *rest) if style is not _Style.QUOTED:
            return _unwrapped(value, tuple(rest), style)
        case list(), (SparkStep.EACH_ELEMENT, *rest):
            found, parts = _of_elements(value, tuple(rest), _Style.QUOTED)
            return found, ["[" + ",".join(parts) + "]"]
        case list(), (int() as index, *rest) if index < len(value):
            quoting = _Style.QUOTED if rest and rest[0] is each else style
            return _evaluated(value[index], tuple(rest), quoting)
    return False, []


def _of_elements(value: list[Document], path: SparkPath, style: _Style) -> tuple[bool, list[str]]:
    made = [_evaluated(each, path, style) for each in value]
    return any(found for found, _ in made), [part for _, parts in made for part in parts]


def _unwrapped(value: list[Document], path: SparkPath, style: _Style) -> tuple[bool, list[str]]:
    """Return the results of all elements as an array; a single one as it is."""
    inner = _Style.QUOTED if style is _Style.RAW else style
    made = [_evaluated(each, path, inner) for each in value]
    count = sum(found for found, _ in made)
    parts = ",".join(part for _, parts in made for part in parts)
    if count == 0:
        return False, []
    return True, [f"[{parts}]" if count > 1 else parts]


# --- VARIANT ------------------------------------------------------------------------------------------

VariantPath: TypeAlias = tuple[str | int, ...]
_VARIANT_STEP = re.compile(
    r"""\.(?P<name>[^.\[]+)|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]|\[(?P<index>[0-9]+)\]"""
)


def variant_path(text: str) -> VariantPath | None:
    """Parse a path such as `$.a["b c"][0]`; None if it is not one."""
    steps, place = list[str | int](), 1
    while place < len(text):
        found = _VARIANT_STEP.match(text, place)
        if found is None:
            return None
        place = found.end()
        names = (found[name] for name in ("name", "single", "double"))
        name = next((each for each in names if each is not None), None)
        steps.append(int(found["index"]) if name is None else name)
    return tuple(steps) if text.startswith("$") else None


class Absent(Enum):
    """The result of a path that leads to nothing."""

    ABSENT = auto()


ABSENT = Absent.ABSENT


def member(value: Document, step: str | int) -> Document | Absent:
    """Return the last member of an object with a key, or an element of an array. A negative index
    counts from the end.
    """
    match value, step:
        case Members(), str():
            return next((each for key, each in reversed(value.pairs) if key == step), ABSENT)
        case Members(), _:
            return ABSENT
        case list(), int() if -len(value) <= step < len(value):
            found: Document = value[step]
            return found
    return ABSENT


def at_path(value: Document, path: VariantPath) -> Document | Absent:
    """Return the value at a path without wildcards."""
    for step in path:
        found = member(value, step)
        if isinstance(found, Absent):
            return ABSENT
        value = found
    return value


# --- the SQL standard ---------------------------------------------------------------------------------


class Wildcard(Enum):
    """Steps that find several values."""

    MEMBERS = auto()
    ELEMENTS = auto()
    DESCENDANTS = auto()
    """`..`: the value and all values in it."""


@dataclass(frozen=True)
class StandardPath:
    """A path of JSON_VALUE, JSON_QUERY and JSON_EXISTS."""

    steps: tuple[str | int | Wildcard, ...]
    strict: bool

    @property
    def is_definite(self) -> bool:
        """Whether the path finds at most one value."""
        return not any(isinstance(step, Wildcard) for step in self.steps)


class MissingError(LookupError):
    """A step of a strict path that leads to nothing."""


_STANDARD_STEP = re.compile(
    r"""\s*(?:
        (?P<descendants>\.\.)(?=[\[*\w"]) | (?P<members>\.\*|\[\s*'\*'\s*\])
        | \.?(?P<name>(?<=\.)[^\s.\[\]()'"*?@,:]+) | \."(?P<dotted>[^"]*)"
        | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\] | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
        | \[\s*(?P<elements>\*)\s*\] | \[\s*(?P<index>-?[0-9]+)\s*\]
    )""",
    re.VERBOSE,
)


def standard_path(text: str) -> StandardPath | None:
    """Parse a path such as `lax $.a[0]['b c']` or `strict $..a[*]`; None if it is not one."""
    found = re.match(r"\s*(?:(lax|strict)\s+)?\$", text)
    if found is None:
        return None
    place, steps = found.end(), list[str | int | Wildcard]()
    while text[place:].strip():
        step = _STANDARD_STEP.match(text, place)
        if step is None:
            return None
        place = step.end()
        if step["descendants"]:
            steps.append(Wildcard.DESCENDANTS)
            if text[place] == "*":
                steps.append(Wildcard.MEMBERS)
                place += 1
            elif text[place] not in '["':
                name = re.compile(r"[^\s.\[\]()'\"*?@,:]+").match(text, place)
                if name is None:
                    return None
                steps.append(name[0])
                place = name.end()
        elif step["members"]:
            steps.append(Wildcard.MEMBERS)
        elif step["elements"]:
            steps.append(Wildcard.ELEMENTS)
        elif step["index"]:
            steps.append(int(step["index"]))
        else:
            names = (step[name] for name in ("name", "dotted", "single", "double"))
            name_ = next(each for each in names if each is not None)
            steps.append(re.sub(r"\\(.)", r"\1", name_))
    return StandardPath(tuple(steps), found[1] == "strict")


def all_at(value: Document, path: StandardPath) -> list[Document]:
    """Return the values that a path finds. Raise MissingError if a step of a strict path finds none."""
    found = [value]
    for step in path.steps:
        found = [each for one in found for each in _stepped(one, step)]
        if not found and path.strict:
            raise MissingError
    return found


def _stepped(value: Document, step: str | int | Wildcard) -> Iterator[Document]:
    match step:
        case Wildcard.DESCENDANTS:
            yield value
            for each in _inner(value):
                yield from _stepped(each, step)
        case Wildcard.MEMBERS:
            yield from _inner(value)
        case Wildcard.ELEMENTS:
            if isinstance(value, list):
                yield from value
        case _:
            found = member(value, step)
            if not isinstance(found, Absent):
                yield found


def _inner(value: Document) -> list[Document]:
    if isinstance(value, Members):
        return [each for _, each in value.pairs]
    return value if isinstance(value, list) else []
