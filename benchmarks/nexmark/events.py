"""The events of an auction house, made by Nexmark's published rules: persons, auctions, and bids.

What an event is depends on its id and the seed alone, so the stream has the same events however it is
cut into blocks and splits. Of 50 events in a row the first is a person, three are auctions, the rest
bids. Texts without a meaning (names of items, descriptions, what fills an event up to its usual size)
are drawn from pools of some thousand; the published generator draws each letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos import Block

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BASE_MS = 1_767_268_800_000
"""The time of the first event: noon, so that a few hours of events are of one day."""

_AUCTIONS, _TOTAL = 3, 50
_FIRST_ID = 1_000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_HOT_AUCTION, _HOT_SELLER, _HOT_BIDDER = 2, 4, 4
"""All but one in so many are for, or by, a hot one."""
_HOT_EVERY = 100
"""One auction, seller and bidder in so many is hot."""
_IN_FLIGHT = 100
"""Auctions that are open at a time, about."""
_ACTIVE = 1_000
"""Persons who sell or bid."""
_LEAD = 10
"""Ids that are named before they are there."""

_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_POOL = 2_048

_AT = pa.timestamp("ms", "UTC")
_INT, _TEXT = pa.int64(), pa.string()
PERSON_TYPE = pa.struct(
    [
        ("id", _INT),
        ("name", _TEXT),
        ("email", _TEXT),
        ("credit_card", _TEXT),
        ("city", _TEXT),
        ("state", _TEXT),
        ("extra", _TEXT),
    ]
)
AUCTION_TYPE = pa.struct(
    [
        ("id", _INT),
        ("item_name", _TEXT),
        ("description", _TEXT),
        ("initial_bid", _INT),
        ("reserve", _INT),
        ("expires", _AT),
        ("seller", _INT),
        ("category", _INT),
        ("extra", _TEXT),
    ]
)
BID_TYPE = pa.struct(
    [
        ("auction", _INT),
        ("bidder", _INT),
        ("price", _INT),
        ("channel", _TEXT),
        ("url", _TEXT),
        ("extra", _TEXT),
    ]
)
SCHEMA = pa.schema(
    [("date_time", _AT), ("person", PERSON_TYPE), ("auction", AUCTION_TYPE), ("bid", BID_TYPE)]
)
"""Of the three structs the one that the event is has a value, the others are null."""


@dataclass(frozen=True)
class Events:
    """Makes the events of a block; for `rh.generator`."""

    per_second: float
    """How many there are in a second of event time."""

    def __call__(self, block: Block) -> pa.RecordBatch:
        return self.made(block.number(), block.seed)

    def made(self, ids: Ints, seed: int = 0) -> pa.RecordBatch:
        """The events with these ids."""
        at = self._at(ids)
        offset = ids % _TOTAL
        person, auction = (
            np.flatnonzero(offset == 0),
            np.flatnonzero((offset > 0) & (offset <= _AUCTIONS)),
        )
        columns = [
            pa.array(at, _AT),
            _spread(self._persons(ids[person], seed), person, len(ids)),
            _spread(self._auctions(ids[auction], at[auction], seed), auction, len(ids)),
            self._bids(ids, offset <= _AUCTIONS, seed),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _at(self, ids: Ints) -> Ints:
        return BASE_MS + (ids * (1_000 / self.per_second)).astype(np.int64)

    def _persons(self, ids: Ints, seed: int) -> pa.StructArray:
        word, other = _words(ids, 0, seed), _words(ids, 1, seed)
        return pa.StructArray.from_arrays(
            [
                pa.array(_last_person(ids) + _FIRST_ID),
                _drawn("name", word, 0),
                _drawn("email", word, 20),
                _drawn("credit card", word, 40),
                _drawn("city", other, 0),
                _drawn("state", other, 20),
                _drawn("person", other, 40),
            ],
            fields=list(PERSON_TYPE),
        )

    def _auctions(self, ids: Ints, at: Ints, seed: int) -> pa.StructArray:
        word, other = _words(ids, 0, seed), _words(ids, 1, seed)
        prices = _prices(_words(ids, 2, seed)), _prices(_words(ids, 3, seed))
        person = _last_person(ids)
        hot = person // _HOT_EVERY * _HOT_EVERY
        seller = np.where(_below(word, 0, _HOT_SELLER) > 0, hot, _some_person(person, word, 20))
        horizon = self._at(ids + _IN_FLIGHT * _TOTAL // _AUCTIONS) - at
        expires = at + 1 + _below(word, 40, np.maximum(2 * horizon, 1))
        return pa.StructArray.from_arrays(
            [
                pa.array(_last_auction(ids) + _FIRST_ID),
                _drawn("item", other, 0),
                _drawn("description", other, 20),
                pa.array(prices[0]),
                pa.array(prices[0] + prices[1]),
                pa.array(expires, _AT),
                pa.array(seller + _FIRST_ID),
                pa.array(_FIRST_CATEGORY + _below(_words(ids, 4, seed), 0, _CATEGORIES)),
                _drawn("auction", other, 40),
            ],
            fields=list(AUCTION_TYPE),
        )

    def _bids(self, ids: Ints, other: npt.NDArray[np.bool_], seed: int) -> pa.StructArray:
        """Of all events; those that are none are masked, as they are few."""
        word, drawn = _words(ids, 0, seed), _words(ids, 1, seed)
        last, person = _last_auction(ids), _last_person(ids)
        least = np.maximum(last - _IN_FLIGHT, 0)
        auction = np.where(
            _below(word, 0, _HOT_AUCTION) > 0,
            last // _HOT_EVERY * _HOT_EVERY,
            least + _below(word, 20, last - least + 1 + _LEAD),
        )
        # The second of its hundred, as the first is the hot seller.
        bidder = np.where(
            _below(drawn, 0, _HOT_BIDDER) > 0,
            person // _HOT_EVERY * _HOT_EVERY + 1,
            _some_person(person, word, 40),
        )
        # Half of the bids come through the four large channels.
        few = len(_HOT_CHANNELS)
        of_all = _below(drawn, 20, 2 * _CHANNELS)
        channel = pa.array(np.where(of_all < _CHANNELS, few + of_all, of_all % few))
        return pa.StructArray.from_arrays(
            [
                pa.array(auction + _FIRST_ID),
                pa.array(bidder + _FIRST_ID),
                pa.array(_prices(_words(ids, 2, seed))),
                pools()["channel"].take(channel),
                pools()["url"].take(channel),
                _drawn("bid", drawn, 40),
            ],
            fields=list(BID_TYPE),
            mask=pa.array(other),
        )


def frames(count: int, per_second: float, seed: int = 0) -> dict[str, pl.DataFrame]:
    """The persons, auctions and bids among the first `count` events, as tables."""
    made = pl.DataFrame(Events(per_second).made(np.arange(count, dtype=np.int64), seed))
    return {
        kind: made.select(kind, "date_time").drop_nulls(kind).unnest(kind)
        for kind in ("person", "auction", "bid")
    }


# --- ids ----------------------------------------------------------------------------------------------


def _last_person(ids: Ints) -> Ints:
    """The last person up to each event, counted from 0."""
    return ids // _TOTAL


def _last_auction(ids: Ints) -> Ints:
    """The last auction up to each event, counted from 0; -1 before the first."""
    return ids // _TOTAL * _AUCTIONS + np.minimum(ids % _TOTAL, _AUCTIONS) - 1


def _some_person(last: Ints, word: Words, shift: int) -> Ints:
    active = np.minimum(last + 1, _ACTIVE)
    return last + 1 - active + _below(word, shift, active + _LEAD)


# --- chance -------------------------------------------------------------------------------------------


def _words(ids: Ints, number: int, seed: int) -> Words:
    """64 random bits for each event: the `number`-th such word of it (splitmix64)."""
    word = (ids * 8 + number).astype(np.uint64) + np.uint64(seed << 40)
    word *= np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def _below(word: Words, shift: int, bound: int | Ints) -> Ints:
    """Numbers from 0 to below the bound, by 20 bits of each word."""
    bits = ((word >> np.uint64(shift)) & np.uint64(0xFFFFF)).astype(np.int64)
    return bits * bound >> 20


def _prices(word: Words) -> Ints:
    """In cents: as many from 1 to 10 dollars as from 100,000 to a million."""
    share = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.rint(10.0 ** (share * 6 + 2)).astype(np.int64)


# --- texts --------------------------------------------------------------------------------------------


def _drawn(pool: str, word: Words, shift: int) -> pa.Array:
    texts = pools()[pool]
    return texts.take(pa.array(_below(word, shift, len(texts))))


@cache
def pools() -> dict[str, pa.Array]:
    """Texts by what they are for. They are the same in every stream, whatever its seed."""
    rng = np.random.default_rng(20)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))

    def text(least: int, most: int) -> str:
        """From `least` to below `most` letters."""
        return "".join(rng.choice(letters, rng.integers(least, most)))

    def padding(size: int) -> list[str]:
        """A fifth shorter or longer than the size."""
        return [text(size - size // 5, size + size // 5) for _ in range(_POOL)]

    first = [
        *("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah"),
        *("Deiter", "Walter"),
    ]
    last = [
        *("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"),
    ]
    urls = [
        f"https://www.nexmark.com/{text(3, 5)}/{text(3, 5)}/{text(3, 5)}/item.htm?query=1"
        for _ in range(len(_HOT_CHANNELS) + _CHANNELS)
    ]
    for number in range(_CHANNELS):
        if rng.integers(10) > 0:
            backwards = int(f"{number:032b}"[::-1], 2)
            signed = backwards - 2**32 if backwards >= 2**31 else backwards
            urls[len(_HOT_CHANNELS) + number] += f"&channel_id={abs(signed)}"
    pools = {
        "name": [f"{one} {other}" for one in first for other in last],
        "email": [f"{text(3, 7)}@{text(3, 5)}.com" for _ in range(_POOL)],
        "credit card": [" ".join(f"{n:04}" for n in rng.integers(0, 10_000, 4)) for _ in range(_POOL)],
        "city": [
            *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond"),
            *("Seattle", "Kent", "Cheyenne"),
        ],
        "state": ["AZ", "CA", "ID", "OR", "WA", "WY"],
        "item": [text(3, 20) for _ in range(_POOL)],
        "description": [text(3, 100) for _ in range(_POOL)],
        "channel": [*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))],
        "url": urls,
        # What fills an event up to 200, 500 and 100 bytes.
        "person": padding(137),
        "auction": padding(390),
        "bid": padding(68),
    }
    return {name: pa.array(texts, _TEXT) for name, texts in pools.items()}


def _spread(made: pa.StructArray, places: Ints, rows: int) -> pa.Array:
    """The values at their places among so many rows, and null elsewhere."""
    of = np.zeros(rows, np.int32)
    of[places] = np.arange(len(places), dtype=np.int32)
    missing = np.ones(rows, np.bool_)
    missing[places] = False
    return made.take(pa.array(of, mask=missing))
