"""The ends of records in lines whose quoted fields may contain line ends, as in CSV.

A quote opens a field only at its beginning, and closes it only at its end. A line whose quotes are not
so is a record by itself, as bad as it may be: it does not take in the lines after it.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from rheos.core.formats.payloads import NEWLINE

_RETURN = b"\r"[0]


class RecordEnds:
    """Finds records by one kind of quote and delimiter."""

    def __init__(self, quote: bytes, delimiter: bytes) -> None:
        self._quote = quote
        self._delimiter = delimiter
        q, d = re.escape(quote), re.escape(delimiter)
        quoted = rb"%s(?:[^%s]++|%s%s)*+%s(?=[%s\r\n]|\Z)" % (q, q, q, q, q, d)
        field = rb"(?:%s|(?!%s)[^%s\r\n]*+)" % (quoted, q, d)
        self._record = re.compile(rb"%s(?:%s%s)*+\r?(?:\n|\Z)" % (field, d, field))
        self._open = re.compile(rb"(?:%s%s)*+%s(?:[^%s]++|%s%s)*+\Z" % (field, d, q, q, q, q))

    def starts(self, data: bytes, *, final: bool) -> tuple[npt.NDArray[np.int64], int]:
        """Return where the records of the data begin, and where the last of them ends.

        Unless the data is `final`, what follows the last line end is left out, and so is a record
        whose quotes may be closed by what comes after the data.
        """
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == NEWLINE)
        if self._quote in data:
            outside = self._outside(raw, ends, final)
            if outside is None:
                return self._one_by_one(data, final=final)
            ends = outside
        ended = ends + 1
        if final and len(data) and (not len(ended) or ended[-1] < len(data)):
            ended = np.append(ended, len(data))
        if not len(ended):
            return np.empty(0, np.int64), 0
        return np.concatenate(([0], ended[:-1])), int(ended[-1])

    def _outside(
        self, raw: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], final: bool
    ) -> npt.NDArray[np.int64] | None:
        """Return the line ends outside of quotes; None unless all quotes are in their places."""
        quotes = np.flatnonzero(raw == self._quote[0])
        if len(quotes) % 2:
            if final:
                return None
            # Later data may close the last quote.
            ends = ends[ends < quotes[-1]]
            raw, quotes = raw[: quotes[-1]], quotes[:-1]
            if not len(ends):
                return ends
        opening, closing = quotes[::2], quotes[1::2]
        before = raw[np.maximum(opening - 1, 0)]
        after = raw[np.minimum(closing + 1, len(raw) - 1)]
        quote, delimiter = self._quote[0], self._delimiter[0]
        opens = (before == delimiter) | (before == NEWLINE) | (before == quote) | (opening == 0)
        closes = (after == delimiter) | (after == NEWLINE) | (after == _RETURN) | (after == quote)
        if not opens.all() or not (closes | (closing == len(raw) - 1)).all():
            return None
        # Two quotes that follow each other within a field are one that is written.
        outside: npt.NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return outside

    def _one_by_one(self, data: bytes, *, final: bool) -> tuple[npt.NDArray[np.int64], int]:
        starts: list[int] = []
        at = 0
        while at < len(data):
            found = self._record.match(data, at)
            if found is None and not final and self._open.match(data, at) is not None:
                break
            end = data.find(b"\n", at) + 1 if found is None else found.end()
            end = end or len(data)
            if not final and not data.endswith(b"\n", at, end):
                break
            starts.append(at)
            at = end
        return np.array(starts, np.int64), at
