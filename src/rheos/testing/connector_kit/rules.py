"""What a rule is, and how it says that it is broken."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from rheos.core.errors import ProgramError
from rheos.runtimes.host.pickling import pack

T = TypeVar("T")
Row = Mapping[str, Any]


class BrokenRuleError(AssertionError):
    """A connector breaks a rule of its contract: the message begins with the rule."""


def broken(rule: str, how: str) -> NoReturn:
    raise BrokenRuleError(f"{rule}: {how}")


@contextmanager
def checking(rule: str) -> Iterator[None]:
    """What else is raised meanwhile says under which rule."""
    try:
        yield
    except BrokenRuleError:
        raise
    except Exception as error:
        error.add_note(f"raised while the connector kit checked: {rule}")
        raise


def sent(value: T, rule: str) -> T:
    """The value as a worker is given it."""
    try:
        packed = pack(value)
    except ProgramError as error:
        raise BrokenRuleError(f"{rule}: {error.what}") from error
    made: Callable[[bytes], T] = pickle.loads
    return made(packed)


def some_of(rows: list[Any], at_most: int = 3) -> str:
    """A few rows, for a message."""
    shown = ", ".join(map(str, rows[:at_most]))
    return f"{shown}, ... ({len(rows)} rows)" if len(rows) > at_most else shown or "nothing"
