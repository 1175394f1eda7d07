"""Wrong queries are refused at their place, in the words of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator

import rheos as rh
from rheos.sql.dialect import StreamSql
from tests.sql.data import registered
from tests.sql.wrong_queries import WRONG

INNER_WORDS = re.compile(
    r"sqlglot|[Pp]olars|ComputeError|Traceback|<class|\bexp\.|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b"
    r"|\bDB\b|\bLOCKS\b|\bPIVOTS\b|\bTABLE ALIAS\b|\bSUBQUERY\b|\bBY NAME\b"
)
"""Words of the libraries underneath, such as names of their classes."""

SHAPES = [
    "SELECT b.auction AS a, COUNT(*) FILTER (WHERE price > 3) AS n FROM bids AS b WHERE b.channel "
    "LIKE 'a%' AND price NOT IN (1, 2) GROUP BY b.auction HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 3",
    "WITH t AS (SELECT auction, MAX(price) AS p FROM bids GROUP BY auction) SELECT t.p, s.amount FROM "
    "t JOIN sales AS s ON t.auction = s.auction WHERE s.amount BETWEEN 1 AND t.p",
    "SELECT window_start, SUM(price) AS s FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL "
    "'1' HOUR)) GROUP BY window_start, window_end",
    "SELECT auction, CASE WHEN price > 3 THEN 'a' ELSE UPPER(channel) END AS c, CAST(price AS STRING), "
    "SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s "
    "FROM bids",
    "SELECT DISTINCT auction FROM bids WHERE EXISTS (SELECT 1 FROM sales s WHERE s.auction = "
    "bids.auction) UNION ALL SELECT id FROM sales WHERE amount > (SELECT MAX(price) FROM bids)",
    "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts MEASURES A.price AS p, LAST"
    "(B.ts) AS t ONE ROW PER MATCH PATTERN (A B+ C) DEFINE A AS A.price > 0, B AS B.price > 1) AS m",
]


def _environment() -> rh.Environment:
    env = rh.Environment(runtime="simulated")
    registered(env)
    return env


def _refusal(env: rh.Environment, text: str) -> rh.RheosError | None:
    try:
        env.sql(text, state_ttl="forever")
    except rh.RheosError as error:
        return error
    return None


def _place(error: rh.RheosError) -> str:
    """Return the underlined characters, or an empty string."""
    line, _, marks = (error.detail or "").rpartition("\n")
    return line[marks.index("^") : len(marks)] if "^" in marks else ""


def test_a_wrong_query_is_refused_at_its_place() -> None:
    env, faults = _environment(), []
    for marked, words in WRONG:
        error = _refusal(env, re.sub("[«»]", "", marked))
        place = marked[marked.index("«") + 1 : marked.index("»")]
        if error is None:
            faults.append(f"{marked}: is not refused")
        elif words not in error.what or _place(error) != place:
            faults.append(f"{marked}: {error.what} at {_place(error)!r}")
        elif error.site is None or error.site.file != __file__:
            faults.append(f"{marked}: the error begins with {error.site}")
        elif INNER_WORDS.search(f"{error.what} {error.hint}".replace(place, "")):
            faults.append(f"{marked}: {error.what}")
    assert not faults, "\n".join(faults)


def test_a_query_with_a_changed_word_runs_or_is_refused_at_its_place() -> None:
    """Each word of some queries is left out, or swapped with its neighbour."""
    env, faults = _environment(), []
    for text in _changed_queries():
        try:
            error = _refusal(env, text)
        except Exception as failure:
            faults.append(f"{text}\n  {failure!r}")
            continue
        if error is not None and not _place(error):
            faults.append(f"{text}\n  {error.what}: no place")
    assert not faults, f"{len(faults)}:\n" + "\n".join(faults)


def _changed_queries() -> Iterator[str]:
    for shape in SHAPES:
        spans = [(each.start, each.end + 1) for each in StreamSql().tokenize(shape)]
        words = [shape[start:stop] for start, stop in spans]
        for place in range(len(words)):
            yield " ".join(words[:place] + words[place + 1 :])
            yield " ".join([*words[:place], *words[place : place + 2][::-1], *words[place + 2 :]])
