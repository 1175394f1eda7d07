"""The argument `on_removed=` of sources whose server removes old messages."""

from __future__ import annotations

from typing import Literal, get_args

from rheos.core.errors import ProgramError

OnRemoved = Literal["fail", "continue"]


def continues_after_removal(on_removed: OnRemoved) -> bool:
    """Return whether to continue after messages were removed unread. Raise ProgramError if the value is
    not known."""
    if on_removed not in get_args(OnRemoved):
        raise ProgramError(f"on_removed={on_removed!r} is not known", hint='write "fail" or "continue"')
    return on_removed == "continue"
