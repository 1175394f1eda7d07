"""Options of client libraries that a user gives as a dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rheos.core.errors import ProgramError


def checked_options(
    options: Mapping[str, Any] | None, known: Sequence[str], wanted: str, example: str, hint: str
) -> tuple[tuple[str, str], ...]:
    """Return a user's options, in the order of their names.

    Args:
        options: The options; None for none.
        known: Names of all options.
        wanted: What a value must be: "the path of a file". No value may be empty.
        example: Advice that shows a dict of options.
        hint: Advice for a value of another kind.

    Returns:
        Names and values.

    Raises:
        ProgramError: They are not a dict of known names and strings. It shows no value.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ProgramError(f"options= must be a dict, not a {type(options).__name__}", hint=example)
    for name, value in (options or {}).items():
        if name not in known:
            raise ProgramError(f"unknown option {name!r}", hint=f"the options are {', '.join(known)}")
        if not isinstance(value, str) or not value:
            raise ProgramError(f"the option {name!r} must be {wanted}", hint=hint)
    return tuple(sorted((options or {}).items()))
