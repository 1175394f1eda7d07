"""BINARY in functions of characters: each byte is computed as the character of its number."""

from __future__ import annotations

import polars as pl

from rheos.sql.value_functions import of_values

_CHARSET = "latin-1"
"""The character set that has the first 256 characters, each as the byte of its number."""


def characters(data: pl.Expr) -> pl.Expr:
    """Return bytes as a string of the same length."""
    return of_values(_decoded, [data], pl.String())


def bytes_of(text: pl.Expr) -> pl.Expr:
    """Return the bytes of a string that `characters` made."""
    return of_values(_encoded, [text], pl.Binary())


def _decoded(data: bytes) -> str:
    return data.decode(_CHARSET)


def _encoded(text: str) -> bytes:
    return text.encode(_CHARSET)
