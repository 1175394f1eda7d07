"""Made-up events of a shop as Parquet files, for `batch.py`.

Event times are distinct, one a millisecond or less often, and out of order by some thousand rows; the
events of one user stand in their order, as each browser sends its own. Prices are quarters, so that a
sum is the same in any order.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

KINDS = ("view", "cart", "buy", "leave")
SHARES = (0.60, 0.25, 0.10, 0.05)
BYTES_PER_ROW = 28
"""About what a row takes in a file."""

_DAY_MS = 86_400_000
_FIRST_MS = 1_767_225_600_000  # 2026-01-01
_DISORDER = 4096
_FILE_ROWS = 2_000_000
_PRODUCTS = 50_000


@dataclass(frozen=True)
class Input:
    """How much is made, and of what."""

    rows: int
    keys: int
    seed: int = 1

    @property
    def step_ms(self) -> int:
        """Between two events. All of them span a day at least."""
        return max(1, _DAY_MS // max(self.rows, 1))

    @property
    def disorder_ms(self) -> int:
        """No event comes later than this after one that has happened after it."""
        return _DISORDER * self.step_ms


def rows_of(gigabytes: float) -> int:
    """How many rows fill about so many GB."""
    return int(gigabytes * 1e9 / BYTES_PER_ROW)


def write(made: Input, folder: Path) -> int:
    """Writes the files into the empty folder. Gives their size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    size = min(_FILE_ROWS, -(-made.rows // 4))
    # A file begins where a stretch of disorder does, so that files follow each other in time.
    size = max(1, -(-size // _DISORDER)) * _DISORDER
    firsts = range(0, made.rows, size)

    def one(number: int) -> int:
        first = firsts[number]
        path = folder / f"events-{number:04d}.parquet"
        events(made, first, min(size, made.rows - first)).write_parquet(
            path, compression="snappy", row_group_size=1 << 18
        )
        return path.stat().st_size

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(one, range(len(firsts))))


def events(made: Input, first: int, count: int) -> pl.DataFrame:
    """The rows from the `first` on; the same whenever they are made."""
    rng = np.random.default_rng([made.seed, first])
    users = rng.integers(0, made.keys, count)
    place = _places(rng, users)
    kind = rng.choice(len(KINDS), count, p=SHARES).astype(np.uint32)
    product = rng.integers(0, _PRODUCTS, count)
    visit = rng.integers(0, 1 << 24, count)
    frame = pl.DataFrame(
        {
            "at": (_FIRST_MS + (first + place) * made.step_ms) * 1000,
            "user": users,
            "kind": kind,
            "product": product,
            "visit": visit,
            "price": rng.integers(4, 4_000, count) / 4,
        }
    )
    url = pl.format("https://shop.example/p/{}?v={}", pl.col("product") + 100_000, pl.col("visit"))
    return frame.select(
        pl.col("at").cast(pl.Datetime("us", "UTC")),
        "user",
        pl.col("kind").replace_strict(dict(enumerate(KINDS)), return_dtype=pl.String),
        url.alias("url"),
        "price",
    )


def _places(rng: np.random.Generator, users: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each row the place in time: shuffled within a stretch, but ascending for every user."""
    count = len(users)
    stretch = np.arange(count) // _DISORDER
    shuffled = np.lexsort((rng.random(count), stretch))
    group = stretch * (int(users.max(initial=0)) + 1) + users
    places = np.empty(count, np.int64)
    places[np.argsort(group, kind="stable")] = shuffled[np.lexsort((shuffled, group))]
    return places
