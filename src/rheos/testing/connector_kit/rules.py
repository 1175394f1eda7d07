"""Rules of the connector kit, and the error for a broken one."""

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
    """Error for a connector that breaks a rule of its contract. The message begins with the rule."""


def broken(rule: str, how: str) -> NoReturn:
    raise BrokenRuleError(f"{rule}: {how}")


@contextmanager
def checking(rule: str) -> Iterator[None]:
    """Add the rule to all other errors that the block raises."""
    try:
        yield
    except BrokenRuleError:
        raise
    except Exception as error:
        error.add_note(f"raised while the connector kit checked: {rule}")
        raise


def sent(value: T, rule: str) -> T:
    """Return the value as a worker receives it: pickled and unpickled."""
    try:
        packed = pack(value)
    except ProgramError as error:
        raise BrokenRuleError(f"{rule}: {error.what}") from error
    made: Callable[[bytes], T] = pickle.loads
    return made(packed)


def some_of(rows: list[Any], at_most: int = 3) -> str:
    """Return a few rows as a string, for a message."""
    shown = ", ".join(map(str, rows[:at_most]))
    return f"{shown}, ... ({len(rows)} rows)" if len(rows) > at_most else shown or "nothing"
