"""The events of the Yahoo streaming benchmark: somebody views, clicks or buys by an ad of a campaign.

The events are numbered, and each is a function of its number: so each campaign's views in each window
are known for any number of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

CAMPAIGNS = 100
ADS_PER_CAMPAIGN = 10
WINDOW_MS = 10_000
EVENT_TYPES = ("view", "click", "purchase")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
_USERS = 1_000
_AT_ONCE = 1_000_000
_ROUND = 1 << 17
"""Events come round and round, each time with a time of their own, so that making them costs little."""

Numbers = npt.NDArray[np.int64]
Counts = Counter[tuple[str, int]]
"""Views, by campaign and the beginning of the window in ms."""


def _ids(kind: int, count: int) -> tuple[str, ...]:
    """Such as UUIDs look."""
    rng = np.random.default_rng([2015, kind])
    drawn = [rng.bytes(16).hex() for _ in range(count)]
    return tuple(f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in drawn)


@cache
def campaigns() -> tuple[str, ...]:
    return _ids(1, CAMPAIGNS)


@cache
def ads() -> tuple[str, ...]:
    return _ids(2, CAMPAIGNS * ADS_PER_CAMPAIGN)


@cache
def users() -> tuple[str, ...]:
    return _ids(3, _USERS)


def campaign_of_ad() -> dict[str, str]:
    """The static table that events are joined with."""
    return {ad: campaigns()[at // ADS_PER_CAMPAIGN] for at, ad in enumerate(ads())}


def _taken(texts: Sequence[str], at: Numbers) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(at))


def _texts(at_ms: Numbers) -> pa.Array:
    """Times in ms, in rising order; there are many of each."""
    each = pa.array(np.arange(at_ms[0], at_ms[-1] + 1)).cast(pa.string())
    return each.take(pa.array(at_ms - at_ms[0]))


def drawn(number: Numbers) -> tuple[Numbers, Numbers]:
    """Of events, by their numbers, the number of the ad, and that of the event type."""
    bits = (number % _ROUND).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(31)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(29)
    ad = (bits % np.uint64(CAMPAIGNS * ADS_PER_CAMPAIGN)).astype(np.int64)
    return ad, (bits >> np.uint64(40)).astype(np.int64) % len(EVENT_TYPES)


@dataclass(frozen=True)
class Pace:
    """When events happen: number n is `n / rate_per_s` seconds after the beginning."""

    began_ms: int
    rate_per_s: float

    def at_ms(self, number: Numbers) -> Numbers:
        return self.began_ms + (number * (1000 / self.rate_per_s)).astype(np.int64)


@cache
def _pool() -> dict[str, pa.Array]:
    """All columns but the time, of the events that come round and round."""
    number = np.arange(_ROUND)
    ad, kind = drawn(number)
    return {
        "user_id": _taken(users(), number % _USERS),
        "page_id": _taken(users(), number * 7 % _USERS),
        "ad_id": _taken(ads(), ad),
        "ad_type": _taken(AD_TYPES, number % len(AD_TYPES)),
        "event_type": _taken(EVENT_TYPES, kind),
        "ip_address": pa.repeat(pa.scalar("1.2.3.4"), _ROUND),
    }


def columns(first: int, count: int, pace: Pace) -> dict[str, pa.Array]:
    """Events `first` to `first + count`, all texts, as the benchmark has them. At most a round."""
    begin, number = first % _ROUND, np.arange(first, first + count)
    over = max(begin + count - _ROUND, 0)
    made = {name: column.slice(begin, count) for name, column in _pool().items()}
    if over:
        made = {name: pa.concat_arrays([made[name], _pool()[name].slice(0, over)]) for name in made}
    return {**made, "event_time": _texts(pace.at_ms(number))}


SCHEMA = pa.schema([(name, array.type) for name, array in columns(0, 1, Pace(0, 1)).items()])


def payloads(
    first: int, count: int, partitions: int, *, began_ms: int, rate_per_s: float
) -> tuple[list[str], list[int]]:
    """What is sent: JSON, and the partition of each."""
    made = pl.DataFrame(columns(first, count, Pace(began_ms, rate_per_s)))
    parts: list[pl.Expr] = []
    for name in made.columns:
        parts += [pl.lit(f'{"," if parts else "{"}"{name}":"'), pl.col(name), pl.lit('"')]
    texts = made.select(pl.concat_str([*parts, pl.lit("}")])).to_series()
    return texts.to_list(), (np.arange(first, first + count) % partitions).tolist()


def counted(events: int, pace: Pace) -> Counts:
    """The views of so many events: the generator's own count."""
    windows = Counter[tuple[int, int]]()
    for first in range(0, events, _AT_ONCE):
        number = np.arange(first, min(first + _AT_ONCE, events))
        ad, kind = drawn(number)
        happened = pace.at_ms(number)
        views = kind == EVENT_TYPES.index("view")
        window, base = happened[views] // WINDOW_MS, happened[0] // WINDOW_MS
        cells = np.bincount((window - base) * CAMPAIGNS + ad[views] // ADS_PER_CAMPAIGN)
        for cell in np.flatnonzero(cells).tolist():
            later, campaign = divmod(cell, CAMPAIGNS)
            windows[campaign, (base + later) * WINDOW_MS] += int(cells[cell])
    names = campaigns()
    return Counter({(names[campaign], int(at)): n for (campaign, at), n in windows.items()})


@dataclass(frozen=True)
class AdsVerdict:
    events: int
    views: int
    windows: int
    """Of all campaigns."""
    wrong: int
    """Whose count is another than the generator's, or is missing, or should not be there."""

    @property
    def ok(self) -> bool:
        return not self.wrong


def judge(found: Counts, made: Counts, events: int) -> AdsVerdict:
    """Holds the counts of Redis against the generator's own."""
    wrong = sum(found.get(window, 0) != made.get(window, 0) for window in {*found, *made})
    return AdsVerdict(events, sum(made.values()), len(made), wrong)
