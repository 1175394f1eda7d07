"""Options: those that are the program's and those that are nearly one of ours; durations and sizes."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand

from rheos.errors import ProgramError
from rheos.protocol.durations import duration_ms
from rheos.protocol.sizes import size_bytes

PASSES_ARGUMENTS_ON = {"ignore_unknown_options": True}
"""Options that are not ours belong to the job file, as does all that follows `--`."""

_ALIKE = 0.8


class PassingOn(TyperCommand):
    """Refuses an option that is nearly one of ours. A job that was to start from a savepoint would
    otherwise begin with nothing, because of one letter."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        for argument in args:
            if argument == "--":
                break
            name = argument.partition("=")[0]
            if not name.startswith("--") or name in ours:
                continue
            meant = get_close_matches(name, ours, 1, _ALIKE)
            if meant:
                raise typer.BadParameter(
                    f"there is no option {name}. Is {meant[0]} meant? An option of the program stands "
                    "behind --",
                    ctx,
                )
        return super().parse_args(ctx, args)


def duration(value: str | None) -> str | None:
    """The option's callback: refuses what is no duration before anything is done."""
    return _checked(value, duration_ms)


def size(value: str | None) -> str | None:
    """Likewise, what is no size."""
    return _checked(value, size_bytes)


def _checked(value: str | None, read: Callable[[str], object]) -> str | None:
    if value is not None:
        try:
            read(value)
        except ProgramError as error:
            raise typer.BadParameter(f"{error.what}; {error.hint}") from None
    return value
