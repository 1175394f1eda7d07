"""Java's regular expressions translated to Rust's, which Polars uses.

Most patterns mean the same in both. The others are rewritten so that Rust matches what Java would:

    \\d+.       [0-9]+[^\\n\\r...]       digits of ASCII, and no line that ends
    \\Qa.b\\E    a\\.b                   quoted characters

Rust lacks some features, which are refused: lookahead and lookbehind, possessive quantifiers,
references to groups. `(?i)` knows letters of all scripts; `$` matches only at the end of the string,
not also before a final line end as in Java, unless only the existence of a match is relevant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_CLASSES = {
    "d": "0-9",
    "w": "0-9A-Za-z_",
    "s": r"\t-\r\x20",
    "h": r"\t\x20\xA0\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
    "v": r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}",
}
"""Characters of each class, as written within brackets. The capital letter is the complement."""
_POSIX = {
    **{"Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7F", "Alpha": "a-zA-Z", "Digit": "0-9"},
    **{"Alnum": "0-9a-zA-Z", "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": r"\x20-~"},
    **{"Blank": r"\x20\t", "Cntrl": r"\x00-\x1F\x7F", "XDigit": "0-9a-fA-F", "Space": r"\t-\r\x20"},
}
_QUANTIFIER = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


@dataclass(frozen=True)
class RustPattern:
    text: str
    groups: tuple[str, ...]
    """Names of the groups; empty for a group without a name."""


class UnknownPatternError(Exception):
    """The part of a pattern that Rust cannot express."""


def rust_pattern(pattern: str, *, asks: bool = False) -> RustPattern:
    """Translate a pattern. With `asks`, only whether it matches is relevant, not the match itself.
    Raises UnknownPatternError."""
    reader = _Reader(pattern, asks)
    return RustPattern(reader.read(), tuple(reader.groups))


@dataclass
class _Reader:
    pattern: str
    asks: bool
    at: int = 0
    groups: list[str] = field(default_factory=list)
    dot_is_all: list[bool] = field(default_factory=lambda: [False])
    """Whether a dot also matches the end of a line, for each open bracket."""
    many_lines: bool = False
    """Whether `$` matches, or may match, the end of any line."""

    def read(self) -> str:
        made = ""
        while self.at < len(self.pattern):
            made += self._part()
            made += self._quantifier()
        return made

    def _part(self) -> str:
        char = self.pattern[self.at]
        if char == "\\":
            return self._escaped(in_class=False)
        if char == "[":
            return self._class()
        self.at += 1
        match char:
            case ".":
                return "(?s:.)" if self.dot_is_all[-1] else f"[^{_LINE_ENDS}]"
            case "$" if self.asks and not self.many_lines:
                return rf"(?:(?:\r\n|[{_LINE_ENDS}])?\z)"
            case "(":
                return self._opened()
            case ")":
                if len(self.dot_is_all) > 1:
                    self.dot_is_all.pop()
        return char

    def _opened(self) -> str:
        flags = _FLAGS.match(self.pattern, self.at - 1)
        self.dot_is_all.append(self.dot_is_all[-1])
        if flags is None:
            named = re.compile(r"\?<([a-zA-Z]\w*)>").match(self.pattern, self.at)
            if named or not self.pattern.startswith("?", self.at):
                self.groups.append(named[1] if named else "")
            return "("
        on, off, end = flags[1], flags[2] or "", flags[3]
        if unknown := {*on, *off} - {*"imsux"}:
            raise UnknownPatternError(f"unknown flag {min(unknown)}")
        self.many_lines |= "m" in on
        self.at = flags.end()
        if end == ")":
            # They hold up to the end of the bracket around them.
            self.dot_is_all.pop()
        self.dot_is_all[-1] = ("s" in on or self.dot_is_all[-1]) and "s" not in off
        on = on.replace("u", "")
        off = off.replace("u", "")
        if not on and not off:
            return "" if end == ")" else "(?:"
        return f"(?{on}{'-' if off else ''}{off}{end}"

    def _quantifier(self) -> str:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None:
            return ""
        self.at = found.end()
        if self.pattern.startswith("+", self.at):
            raise UnknownPatternError("possessive quantifiers are not supported")
        if self.pattern.startswith("?", self.at):
            self.at += 1
            return f"{found[0]}?"
        return found[0]

    def _class(self) -> str:
        """Translate the characters between [ and ], with nested classes."""
        made = "["
        self.at += 1
        if self.pattern.startswith("^", self.at):
            made, self.at = "[^", self.at + 1
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                made += self._escaped(in_class=True)
                continue
            if char == "[":
                made += self._class()
                continue
            self.at += 1
            if char == "]":
                return f"{made}]"
            # To Rust these are operators, or the begin of a class of POSIX.
            doubled = char == "-" and made.endswith("-")
            made += f"\\{char}" if char in ":~" or doubled else char
        return made

    def _escaped(self, *, in_class: bool) -> str:
        char = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        match char:
            case "d" | "w" | "s" | "h" | "v":
                return _CLASSES[char] if in_class else f"[{_CLASSES[char]}]"
            case "D" | "W" | "S" | "H" | "V":
                return f"[^{_CLASSES[char.lower()]}]"
            case "R" if not in_class:
                return rf"(?:\r\n|[{_CLASSES['v']}])"
            case "e":
                return r"\x1B"
            case "u":
                return self._numbered(r"[0-9a-fA-F]{4}", 16)
            case "0":
                return self._numbered(r"[0-3]?[0-7]{1,2}", 8)
            case "c":
                self.at += 1
                return f"\\x{{{ord(self.pattern[self.at - 1 : self.at] or '@') ^ 64:x}}}"
            case "p" | "P":
                return self._property(char, in_class=in_class)
            case "Q":
                end = self.pattern.find("\\E", self.at)
                quoted = self.pattern[self.at : end if end >= 0 else None]
                self.at = len(self.pattern) if end < 0 else end + 2
                return re.escape(quoted).replace("\\\n", "\\n")
            case "Z":
                raise UnknownPatternError(r"\Z is not supported: write \z for the end of the string")
        if char.isascii() and char.isalnum():
            return f"\\{char}"
        return f"\\x{{{ord(char):x}}}" if char else "\\"

    def _numbered(self, digits: str, base: int) -> str:
        found = re.compile(digits).match(self.pattern, self.at)
        if found is None:
            raise UnknownPatternError("expected \\u and four digits, or \\0 and an octal number")
        self.at = found.end()
        return f"\\x{{{int(found[0], base):x}}}"

    def _property(self, sign: str, *, in_class: bool) -> str:
        found = re.compile(r"\{(\w+)\}").match(self.pattern, self.at)
        if found is None:
            return f"\\{sign}"
        self.at = found.end()
        ranges = _POSIX.get(found[1])
        if ranges is None:
            return f"\\{sign}{{{found[1].removeprefix('Is')}}}"
        if sign == "P":
            return f"[^{ranges}]"
        return ranges if in_class else f"[{ranges}]"


# --- what replaces ------------------------------------------------------------------------------------


def rust_replacement(text: str, groups: tuple[str, ...]) -> str:
    """Translate the replacement of matches of a pattern with these groups: `$1` and `${name}` refer to
    groups, `\\$` is a dollar. Raises UnknownPatternError."""
    made, at = "", 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise UnknownPatternError("a character is missing after the last \\")
            made += text[at].replace("$", "$$")
            at += 1
        elif char == "$":
            found = re.compile(r"([0-9]+)|\{([a-zA-Z]\w*)\}", re.ASCII).match(text, at)
            if found is None:
                raise UnknownPatternError(
                    "$ must be followed by a number or {name}; write \\$ for a dollar sign"
                )
            # As many digits as there are groups for.
            name, at = found[1] or found[2], found.end()
            while found[1] and len(name) > 1 and int(name) > len(groups):
                name, at = name[:-1], at - 1
            if int(name) > len(groups) if found[1] else name not in groups:
                raise UnknownPatternError(f"the pattern has no group {name}")
            made += f"${{{name}}}"
        else:
            made += char
    return made
