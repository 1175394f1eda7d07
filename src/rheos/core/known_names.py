"""Look-ups by names that users write. Errors list the names that exist, similar ones first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn, TypeVar

from rheos.core.errors import UnknownKeyError
from rheos.core.site import call_site

T = TypeVar("T")

_CLOSE = 0.6
"""Similarity of a name to one that a hint suggests; 1.0 means equal."""

_MOST_LISTED = 40
"""Maximum number of names in a list."""


def meant(name: str, known: Iterable[str]) -> str:
    """Return the question "did you mean 'a' or 'b'? ", or an empty string if no known name is
    similar."""
    from difflib import get_close_matches

    folded = {each.casefold(): each for each in known}
    close = [repr(folded[each]) for each in get_close_matches(name.casefold(), folded, 3, _CLOSE)]
    return f"did you mean {' or '.join(close)}? " if close else ""


def names_hint(name: str, known: Iterable[str], listed: str) -> str:
    """Return the advice for an unknown name: similar names, then all names.

    Args:
        name: The unknown name.
        known: The names that exist.
        listed: The words before the list, such as "the columns are".

    Returns:
        The advice.
    """
    names = [*known]
    if not names and (none := re.fullmatch(r"the (.*?)( here)? are", listed)) is not None:
        return f"there are no {none[1]}{none[2] or ''}"
    rest = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{meant(name, names)}{listed} {', '.join(names[:_MOST_LISTED]) or 'none'}{rest}"


def unknown_key(what: str, name: str, known: Iterable[str], more: str = "") -> UnknownKeyError:
    """Return the error for a name that does not exist.

    Args:
        what: The owner and the kind of named things, such as "the job has no output".
        name: The unknown name.
        known: The names that exist.
        more: Further advice.
    """
    hint = names_hint(name, known, f"the {what.rpartition(' no ')[2]}s are")
    return UnknownKeyError(f"{what} {name!r}", site=call_site(), hint=f"{hint}{more}")


class NamedItems(dict[str, T]):
    """A dict whose error for an unknown name lists the names that exist."""

    def __init__(self, what: str, items: Mapping[str, T]) -> None:
        """Copy `items`. `what` begins the errors, as for `unknown_key`."""
        super().__init__(items)
        self._what = what

    def __missing__(self, name: str) -> NoReturn:
        raise unknown_key(self._what, name, self)
