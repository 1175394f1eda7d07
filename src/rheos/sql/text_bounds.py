"""Row functions that can return strings far longer than their arguments.

They compute results only if each one, and all of a batch together, are within the bounds: if memory
cannot be allocated, the process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.row_functions import of_one_length
from rheos.core.operators.row_expressions import refusal

MOST_TEXT_BYTES = 64 << 20
"""Size of one result, in bytes of UTF-8: 16 million characters of any script."""
MOST_BATCH_BYTES = 1 << 30
"""Size of the results of one expression for the rows of one batch, in bytes of UTF-8."""
_SHOWN_CHARACTERS = 200
"""Characters of a call that an error shows."""


def repeated(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Repeat strings; a negative number counts as 0. `written` is the call in the query.

    Raises:
        ComputeError: a string, or all of them, would be too long.
    """
    text, times = of_one_length(columns)
    times = times.clip(lower_bound=0)
    check_sizes(text.str.len_bytes().cast(pl.Int64) * times, written)
    many = pc.binary_repeat(text.to_arrow().cast(pa.large_string()), times.to_arrow())
    return cast("pl.Series", pl.from_arrow(many)).rename(text.name)


def replaced(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Replace each occurrence of the second column by the third; an empty string never occurs.
    `written` is the call in the query.

    Raises:
        ComputeError: a string, or all of them, would be too long.
    """
    if len(columns[1]) == len(columns[2]) == 1:
        by_constant = _replaced_constant(columns[0], columns[1].item(), columns[2].item())
        if by_constant is not None:
            return by_constant
    text, old, new = of_one_length(columns)
    size, cut, put = (each.str.len_bytes().cast(pl.Int64) for each in (text, old, new))
    cut = cut.clip(lower_bound=1)
    rows = pl.DataFrame([text.alias("text"), old.alias("old"), new.alias("new")])
    if not _fits(size + size // cut * put):
        found = rows.select(pl.col("text").str.count_matches(pl.col("old"), literal=True)).to_series()
        check_sizes(size + found.cast(pl.Int64) * (put - cut), written)
    kept = pl.when(pl.col("old") == "").then(pl.col("text"))
    parts = pl.col("text").str.split(pl.col("old")).list.join(pl.col("new"))
    made = pl.when(pl.col("old").is_not_null() & pl.col("new").is_not_null()).then(
        kept.otherwise(parts)
    )
    return rows.select(made.alias(text.name)).to_series()


def _replaced_constant(text: pl.Series, old: str | None, new: str | None) -> pl.Series | None:
    """Replace a constant by another with Arrow, in a tenth of the time. Return None if a constant is
    null or empty, or if the results could be too long."""
    if not old or new is None:
        return None
    size = text.str.len_bytes().cast(pl.Int64)
    if not _fits(size + size // len(old.encode()) * len(new.encode())):
        return None
    made = pc.replace_substring(text.to_arrow().cast(pa.large_string()), old, new)
    return cast("pl.Series", pl.from_arrow(made)).rename(text.name)


def joined(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Join lists of strings, which have no nulls, by separators. `written` is the call in the query.

    Raises:
        ComputeError: a string, or all of them, would be too long.
    """
    parts, between = of_one_length(columns)
    gaps = (parts.list.len().cast(pl.Int64) - 1).clip(lower_bound=0)
    added = gaps * between.str.len_bytes().cast(pl.Int64)
    # The parts are in memory already.
    check_sizes(added, written)
    rows = pl.DataFrame([parts.alias("parts"), between.alias("between")])
    return rows.select(pl.col("parts").list.join(pl.col("between")).alias(parts.name)).to_series()


def replaced_matches(
    columns: Sequence[pl.Series], *, pattern: str, by: str, references: int, written: str
) -> pl.Series:
    """Replace each match of a pattern by `by`, which has `references` references to groups.
    `written` is the call in the query.

    Raises:
        ComputeError: a string, or all of them, would be too long.
    """
    [text] = columns
    size, put = text.str.len_bytes().cast(pl.Int64), len(by.encode())
    # A match of a group is never longer than the string itself.
    groups = size * (1 + references)
    if not _fits(groups + (size + 1) * put):
        check_sizes(groups + text.str.count_matches(pattern).cast(pl.Int64) * put, written)
    return text.str.replace_all(pattern, by)


def check_sizes(sizes: pl.Series, written: str) -> None:
    """Check the sizes of results, in bytes.

    Raises:
        ComputeError: one of them, or their sum, is too large.
    """
    written = shorten(written, _SHOWN_CHARACTERS, placeholder=" ...")
    most = cast("int | None", sizes.max()) or 0
    if most > MOST_TEXT_BYTES:
        raise refusal(
            f"{written} would create a string of {most:,} bytes, but the maximum is "
            f"{MOST_TEXT_BYTES:,}",
            "limit the argument that makes it too long, for example with LEAST(n, 1000) or "
            "LEFT(s, 1000)",
        )
    total = int(sizes.sum())
    if total > MOST_BATCH_BYTES:
        raise refusal(
            f"{written} would create {total:,} bytes for the {len(sizes):,} rows of a batch, "
            f"but the maximum is {MOST_BATCH_BYTES:,}",
            "lower batch_rows, or create shorter strings, for example with LEAST(n, 1000) or "
            "LEFT(s, 1000)",
        )


def _fits(sizes: pl.Series) -> bool:
    most = cast("int | None", sizes.max()) or 0
    return most <= MOST_TEXT_BYTES and int(sizes.sum()) <= MOST_BATCH_BYTES
