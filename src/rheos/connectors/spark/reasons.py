"""What Spark has said, in a line."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """The first line; Java's own lines stay behind."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
