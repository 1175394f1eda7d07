"""Spark's error messages, shortened to one line."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """Return the first line, without Java's stack trace."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
