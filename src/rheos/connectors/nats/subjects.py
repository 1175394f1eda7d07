"""Subjects that are built from columns: `orders.{country}`. A value is one token, or a part of it."""

from __future__ import annotations

from rheos.connectors.name_patterns import NamePattern, NameSyntax

SUBJECTS = NameSyntax(
    argument="subject",
    part="a token",
    names=r"[^\s.*>{}]+(\.[^\s.*>{}]+)*",
    values=r"^[^\s.*>\x00-\x1f\x7f]+$",
    values_rule="is not empty, and has no dots, blanks, * or >",
    example="orders.{country}",
    most_bytes=1024,
)


def any_subject(pattern: NamePattern) -> str:
    """Return a filter that matches all subjects of a pattern."""
    return ".".join("*" if "\0" in token else token for token in pattern.filled("\0").split("."))
