"""Policies of work that a sink does for its table after a commit, and their arguments in SQL."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rheos.core.errors import ProgramError

PolicyT = TypeVar("PolicyT", bound="MaintenancePolicy")


@dataclass(frozen=True, kw_only=True)
class MaintenancePolicy:
    """Common base of the policies of a table."""

    every: int
    """Number of checkpoints between two runs."""

    def is_due(self, before: int, checkpoint: int) -> bool:
        """Return whether to do the work after a commit.

        Args:
            before: the checkpoint of the sink's last commit.
            checkpoint: the checkpoint of this commit.
        """
        return checkpoint // self.every > before // self.every


def check_count(name: str, number: object, least: int) -> None:
    """Raise ProgramError if an argument is not an integer, or too small."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ProgramError(
            f"{name}={number!r} is not an integer of at least {least}", hint=f"write {name}=10"
        )


def policy_of(
    kind: type[PolicyT], make: Callable[..., PolicyT], argument: str, given: object
) -> PolicyT | None:
    """Return the policy that an argument of a sink describes.

    Args:
        kind: the class of the policy.
        make: the function for users, which creates one.
        argument: the name of the sink's argument.
        given: a policy, the arguments of `make` as strings, as SQL has them, or None.

    Raises:
        ProgramError: the argument is anything else, or names an unknown setting.
    """
    if given is None or isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ProgramError(
            f"{argument}={given!r} is not a policy", hint=f"write {argument}=rh.{make.__name__}()"
        )
    known = inspect.signature(make).parameters
    settings: dict[str, Any] = {}
    for option, value in given.items():
        name = str(option).replace("-", "_")
        if name not in known:
            raise ProgramError(
                f"{argument} has no setting {option!r}", hint=f"it has {', '.join(known)}"
            )
        is_number = isinstance(known[name].default, int) and str(value).isdecimal()
        settings[name] = int(value) if is_number else value
    return make(**settings)
