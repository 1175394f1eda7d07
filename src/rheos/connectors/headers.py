"""Secrets that go in a header of HTTP. Errors show nothing of them."""

from __future__ import annotations

from rheos.core.errors import ProgramError


def check_header_value(name: str, value: object) -> None:
    """Raises ProgramError where a header cannot carry the value of the argument `name`."""
    is_text = isinstance(value, str) and value and value.isascii() and value.isprintable()
    if not is_text or value != str(value).strip():
        raise ProgramError(
            f"{name}= must consist of printable ASCII characters, without blanks at its ends",
            hint="a value read from a file may end in a newline: add .strip()",
        )
