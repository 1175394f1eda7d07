"""URLs, headers and paths from users. Errors show no URL or header: it may contain a password."""

from __future__ import annotations

import os
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from rheos.core.errors import ProgramError

_ENCODE = (
    'percent-encode user and password: urllib.parse.quote(password, safe=""). After the '
    "host, write @ as %40"
)


def url_parts(url: object, schemes: Collection[str], system: str, hint: str) -> SplitResult:
    """Parse a URL with one of these schemes. `hostname` and `port` of the result are valid.

    `system` names what the URL refers to ("a Redis"), and `hint` shows its form. Raises ProgramError,
    which shows no part of the URL: if a password contains `/`, `?` or `#`, parts of it appear in the
    port, the path, or the fragment.
    """
    if not isinstance(url, str):
        raise ProgramError(f"url= is a {type(url).__name__}, not the URL of {system}", hint=hint)
    try:
        parts = urlsplit(url)
        _ = parts.hostname, parts.port
    except ValueError:
        raise ProgramError(
            f"url= is not a valid URL for {system}: its host or port cannot be read", hint=_ENCODE
        ) from None
    if parts.scheme not in schemes:
        raise ProgramError(f"url= is not a valid URL for {system}", hint=hint)
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        raise ProgramError(
            f"url= is not a valid URL for {system}: it has an @ after the host", hint=_ENCODE
        )
    return parts


def check_header_value(name: str, value: object) -> None:
    """Raise ProgramError if a header cannot contain the value of the argument `name`."""
    is_text = isinstance(value, str) and value and value.isascii() and value.isprintable()
    if not is_text or value != str(value).strip():
        raise ProgramError(
            f"{name}= must consist of printable ASCII characters, without leading or trailing blanks",
            hint="a value read from a file may end with a newline: add .strip()",
        )


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path that workers can use: a URL as it is, or a local path made absolute."""
    text = os.fspath(path)
    if "://" in text or "::" in text:
        return text
    return os.path.abspath(os.path.expanduser(text))
