"""Commands that pass arguments on to a program: an option that is not ours is the program's, unless it
is nearly one of ours."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand

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
