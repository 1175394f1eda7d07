r"""PostgreSQL's regular expressions translated to Java's.

[[:alpha:]]  [\p{Alpha}]      \m, \M, \y  \b      .  also matches the end of a line
"""

from __future__ import annotations

import re

from rheos.sql.java_patterns import UnknownPatternError

_POSIX = {
    **{"alnum": "Alnum", "alpha": "Alpha", "blank": "Blank", "cntrl": "Cntrl", "digit": "Digit"},
    **{"graph": "Graph", "lower": "Lower", "print": "Print", "punct": "Punct", "space": "Space"},
    **{"upper": "Upper", "xdigit": "XDigit"},
}
_ESCAPES = {"m": r"\b", "M": r"\b", "y": r"\b", "Y": r"\B", "Z": r"\z"}
_PART = re.compile(r"\\.|\[\[:[<>]:\]\]|\[|\$|.", re.DOTALL)
_CLASS_PART = re.compile(r"\\.|\[:(\w+):\]|\]|.", re.DOTALL)


def java_pattern(pattern: str, flags: str = "") -> str:
    """Return the pattern in Java's words.

    Args:
        pattern: the pattern.
        flags: letters such as `i`: it ignores case.

    Raises:
        UnknownPatternError: a flag or a class of characters is unknown.
    """
    unknown = {*flags} - {*"gicnmsq"}
    if unknown:
        raise UnknownPatternError(f"unknown flag {min(unknown)}")
    made = _quoted(pattern) if "q" in flags else _translated(pattern, {*"nm"} & {*flags} != set())
    on = ("i" if "i" in flags else "") + ("m" if {*"nm"} & {*flags} else "s")
    return f"(?{on}){made}"


def _quoted(pattern: str) -> str:
    return "".join(re.escape(char) for char in pattern)


def _translated(pattern: str, many_lines: bool) -> str:
    made, at = "", 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        assert found is not None, "a part is any character"
        part, at = found[0], found.end()
        if part == "[":
            inner, at = _class(pattern, at)
            made += inner
        elif part.startswith("[["):
            made += r"\b"
        elif part == "$" and not many_lines:
            made += r"\z"
        else:
            made += _ESCAPES.get(part[1:], part) if part[0] == "\\" else part
    return made


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Return the characters between brackets in Java's words, and the place after them."""
    made = "["
    if pattern.startswith("^", at):
        made, at = "[^", at + 1
    if pattern.startswith("]", at):
        made, at = made + r"\]", at + 1
    while at < len(pattern):
        found = _CLASS_PART.match(pattern, at)
        assert found is not None, "a part is any character"
        part, at = found[0], found.end()
        if part == "]":
            return f"{made}]", at
        if found[1] is not None:
            if found[1] not in _POSIX:
                raise UnknownPatternError(f"[:{found[1]}:] is not a class of characters")
            part = rf"\p{{{_POSIX[found[1]]}}}"
        made += rf"\{part}" if part in ("[", "&") else part
    return made, at


_REPLACEMENT = re.compile(r"\\([0-9&\\])|\$")


def rust_replacement(text: str, groups: int) -> str | None:
    r"""Return a replacement with `\1` and `\&` in Rust's words; None if a group does not exist."""
    if any(f[1] and f[1].isdigit() and int(f[1]) > groups for f in _REPLACEMENT.finditer(text)):
        return None

    def written(found: re.Match[str]) -> str:
        match found[1]:
            case None:
                return "$$"
            case "\\":
                return "\\"
            case "&":
                return "${0}"
        return f"${{{found[1]}}}"

    return _REPLACEMENT.sub(written, text)
