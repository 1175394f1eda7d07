"""JSON documents, good and bad, and the table of them that tests of JSON functions read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import rheos as rh

DOCUMENTS: tuple[str | None, ...] = (
    '{"a":{"b":[1,2,{"c":"x"}]},"k.l":"dots","a b":{"c d":1},"n":null,"t":true}',
    '{"a":[{"b":1,"c":"é \\u00e9"},{"b":[2,3]},{"c":null}]}',
    '{"b":"a\\"b\\\\c\\/d\\n\\u0001"}',
    '{"a":12345678901234567890123,"b":-9223372036854775808,"c":1.50,"d":1e3,"e":1E-7,"f":100000000.0}',
    '{"a":1,"a":2,"b":null,"b":3}',
    '{"a":"7","b":"2026-03-01","c":[1,"2",null,3.5,[4]],"d":{"a":"x"}}',
    '[[1,2],[3,[4,5]],{"a":6}]',
    "[]",
    "{}",
    '"text"',
    "12",
    "-0",
    "1.0",
    "true",
    "null",
    "  [1 , 2 ]  ",
    '{"a" : 1 , "b" : [ 1 , 2 ] }',
    None,
)
"""Documents on which all parsers agree."""
MALFORMED = (
    *(
        "",
        " ",
        "{",
        '{"a":1',
        '{"a" 1}',
        "[1,]",
        "{a:1}",
        "nul",
        "NaN",
        "01",
        "+1",
        ".5",
        '"a',
        "\\",
        "[1 2]",
    ),
    *('{"a":[1,}', '{"a":1}}', '{"a":1} x', "{'a':1}", '{"a":"\n"}', '{"a":tru}'),
)


def environment(documents: Sequence[str | None]) -> rh.Environment:
    env = rh.Environment(runtime="simulated")
    rows = pa.table({"k": pa.array(range(len(documents)), pa.int32()), "s": pa.array(documents)})
    env.register("docs", env.from_source(rh.collection(rows), name="docs"))
    return env


def found(documents: Sequence[str | None], expressions: Sequence[str]) -> Mapping[str, list[Any]]:
    """Return the values of each expression, which reads `s`, in one query."""
    env = environment(documents)
    columns = ", ".join(f"{text} AS v{place}" for place, text in enumerate(expressions))
    env.sql(f"SELECT k, {columns} FROM docs").collect("found")
    table = env.execute("json").collected["found"].sort_by("k")
    return {text: table[f"v{place}"].to_pylist() for place, text in enumerate(expressions)}
