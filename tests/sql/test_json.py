"""JSON functions of PostgreSQL and the SQL standard, and VARIANT. `test_json_on_spark` has others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.sql import json_documents
from tests.sql.json_documents import DOCUMENTS, MALFORMED, environment, found

BY_DUCKDB = {
    "s -> 'a'": "s::JSON -> 'a'",
    "s ->> 'a'": "s::JSON ->> 'a'",
    "s -> 'a' -> 'b' ->> 2": "s::JSON -> 'a' -> 'b' ->> 2",
    "s -> 0": "s::JSON -> 0",
    "s -> -1": "s::JSON -> -1",
    "s ->> 'k.l'": "s::JSON ->> '$.\"k.l\"'",
    "s -> 'a b' ->> 'c d'": "s::JSON -> 'a b' ->> 'c d'",
    "s #>> '{a,b,0}'": "s::JSON ->> '$.a.b[0]'",
    "s -> 'd' ->> 'a'": "s::JSON -> 'd' ->> 'a'",
    "JSON_EXTRACT_PATH_TEXT(s, 'a', 'b')": "s::JSON ->> '$.a.b'",
}


def test_arrows_agree_with_duckdb() -> None:
    # DuckDB formats numbers anew, and takes the first of two members with one key.
    documents = [
        each for each in DOCUMENTS if each is None or ("1.50" not in each and '"a":2' not in each)
    ]
    ours = found(documents, [*BY_DUCKDB])
    with duckdb.connect() as connection:
        for text, theirs in BY_DUCKDB.items():
            query = f"SELECT {theirs} FROM (SELECT unnest(?) AS s)"
            rows = connection.execute(query, [documents]).fetchall()
            assert ours[text] == [row[0] for row in rows], text


def test_arrows_keep_numbers_and_take_the_last_of_equal_keys() -> None:
    ours = found(['{"a":1.50,"a":12345678901234567890123e-2}'], ["s -> 'a'", "s ->> 'a'"])
    assert [*ours.values()] == [["12345678901234567890123e-2"], ["12345678901234567890123e-2"]]


def test_malformed_documents_are_null_or_false() -> None:
    of_strings = ["s -> 'a'", "s ->> 'a'", "CAST(s AS JSON)", "JSON_TYPEOF(s)"]
    of_strings += ["JSON_VALUE(s, '$')", "JSON_QUERY(s, '$')"]
    conditions = ["s IS JSON", "JSON_EXISTS(s, '$')"]
    ours = found(MALFORMED, [*of_strings, *conditions])
    for text in of_strings:
        assert ours[text] == [None] * len(MALFORMED), text
    for text in conditions:
        assert ours[text] == [False] * len(MALFORMED), text


STANDARD = {
    "JSON_VALUE(s, '$.t')": "true",
    "JSON_VALUE(s, 'lax $.a.b[1]')": "2",
    "JSON_VALUE(s, '$.a.b[1]' RETURNING INT)": 2,
    "JSON_VALUE(s, '$.t' RETURNING BOOLEAN)": True,
    "JSON_VALUE(s, '$.a')": None,
    "JSON_VALUE(s, '$.n')": None,
    "JSON_VALUE(s, '$.none' DEFAULT 'd' ON EMPTY)": "d",
    "JSON_VALUE(s, 'strict $.none' DEFAULT 'e' ON EMPTY DEFAULT 'f' ON ERROR)": "f",
    "JSON_VALUE(s, 'strict $.a' NULL ON EMPTY DEFAULT 'f' ON ERROR)": "f",
    "JSON_VALUE(s, '$[\"k.l\"]')": "dots",
    "JSON_VALUE(s, '$.\"a b\"[''c d'']' RETURNING BIGINT)": 1,
    "JSON_QUERY(s, '$.a.b')": '[1,2,{"c":"x"}]',
    "JSON_QUERY(s, '$.a.b[0]')": None,
    "JSON_QUERY(s, '$.a.b[0]' WITH WRAPPER)": "[1]",
    "JSON_QUERY(s, '$.a.b' WITH UNCONDITIONAL ARRAY WRAPPER)": '[[1,2,{"c":"x"}]]',
    "JSON_QUERY(s, '$.a.b' WITH CONDITIONAL WRAPPER)": '[1,2,{"c":"x"}]',
    "JSON_QUERY(s, '$.a.b[*]')": '[1,2,{"c":"x"}]',
    "JSON_QUERY(s, '$..c')": '["x"]',
    "JSON_QUERY(s, '$.none' EMPTY ARRAY ON EMPTY)": "[]",
    "JSON_QUERY(s, 'strict $.none' EMPTY OBJECT ON ERROR)": "{}",
    "JSON_EXISTS(s, '$.n')": True,
    "JSON_EXISTS(s, '$.a.b[2].c')": True,
    "JSON_EXISTS(s, '$.a.b[3]')": False,
    "JSON_EXISTS(s || '}', '$.a' TRUE ON ERROR)": True,
    "JSON_EXISTS(s || '}', '$.a' UNKNOWN ON ERROR)": None,
    "s IS JSON": True,
    "s IS JSON OBJECT": True,
    "s IS NOT JSON ARRAY": True,
    "s IS JSON SCALAR": False,
    "CAST(NULL AS STRING) IS JSON": None,
    "JSON_OBJECT()": "{}",
    "JSON_OBJECT(KEY 'k' VALUE k, 'n' VALUE NULL)": '{"k":0,"n":null}',
    "JSON_OBJECT('k' VALUE k, 'n' VALUE NULL ABSENT ON NULL)": '{"k":0}',
    "JSON_OBJECT('k': k, 'd', 1.50)": '{"k":0,"d":1.50}',
    "JSON_OBJECT('o' VALUE JSON_OBJECT('q' VALUE 'a\"b'), 'a' VALUE JSON_ARRAY(1))": (
        '{"o":{"q":"a\\"b"},"a":[1]}'
    ),
    "JSON_OBJECT('q' VALUE JSON_QUERY(s, '$.a.b'), 's' VALUE '[1]')": (
        '{"q":[1,2,{"c":"x"}],"s":"[1]"}'
    ),
    "JSON_ARRAY()": "[]",
    "JSON_ARRAY(1, NULL, 'x', true, 1e0)": '[1,"x",true,1.0]',
    "JSON_ARRAY(1, NULL NULL ON NULL)": "[1,null]",
    "JSON_ARRAY(DATE '2026-03-01', TIMESTAMP '2026-03-01 12:00:00', ARRAY(1, 2))": (
        '["2026-03-01","2026-03-01T12:00:00.000Z",[1,2]]'
    ),
}


def test_functions_of_the_sql_standard() -> None:
    ours = found(DOCUMENTS[:1], [*STANDARD])
    assert {text: values[0] for text, values in ours.items()} == STANDARD


VARIANTS = {
    "PARSE_JSON(s):a.b[0]::INT": 1,
    "PARSE_JSON(s):a:b[2].c::STRING": "x",
    "PARSE_JSON(s):['k.l']::STRING": "dots",
    "PARSE_JSON(s):`a b`['c d']::DOUBLE": 1.0,
    "PARSE_JSON(s):a::INT": None,
    "PARSE_JSON(s):none IS NULL": True,
    "PARSE_JSON(s):n IS NULL": False,
    "PARSE_JSON(s):n::STRING": None,
    "TO_JSON(PARSE_JSON(s):a)": '{"b":[1,2,{"c":"x"}]}',
    "TO_JSON(PARSE_JSON('[1.50, 1e3, 2.0]'))": "[1.5,1000.0,2]",
    "TO_JSON(PARSE_JSON('12345678901234567890'))": "12345678901234567890",
    "PARSE_JSON('1e3')::INT": 1000,
    "PARSE_JSON('1.9')::INT": 1,
    "PARSE_JSON('true')::INT": 1,
    "PARSE_JSON('5')::BOOLEAN": True,
    "PARSE_JSON('\"2026-03-01\"')::DATE < DATE '2026-03-02'": True,
    "PARSE_JSON('3000000000')::INT": None,
    "PARSE_JSON('[1, \"2\", null]')::ARRAY<INT>": [1, 2, None],
    "PARSE_JSON(s)::STRUCT<t: BOOLEAN, n: INT>": {"t": True, "n": None},
    "PARSE_JSON(s) -> 'a' -> 'b' ->> 0": "1",
    "s:a.b[2].c": "x",
    "JSON_OBJECT('v' VALUE PARSE_JSON('{\"b\":1,\"a\":2}'))": '{"v":{"a":2,"b":1}}',
}


def test_paths_into_variants_and_casts_of_them() -> None:
    ours = found(DOCUMENTS[:1], [*VARIANTS])
    assert {text: values[0] for text, values in ours.items()} == VARIANTS


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("PARSE_JSON('{' || s)", "PARSE_JSON('{' || s) received a string that is not valid JSON"),
        ('PARSE_JSON(\'{"a":1,"a":2}\')', "an object has a key twice"),
        ("VARIANT_GET(PARSE_JSON(s), '$.a', 'int')", "cannot convert"),
        ("JSON_VALUE(s, '$.none' ERROR ON EMPTY)", "finds nothing in a document"),
        ("JSON_QUERY(s || '}', '$.a' ERROR ON ERROR)", "cannot read a document"),
    ],
)
def test_a_document_can_fail_a_query_with_its_record(expression: str, message: str) -> None:
    with pytest.raises(RheosError) as raised:
        found(DOCUMENTS[:1], [expression])
    assert message in str(raised.value)
    assert "record:" in str(raised.value)


REFUSED = (
    "JSON_VALUE(s, k)",
    "JSON_VALUE(s, '$.a?(@.b > 1)')",
    "JSON_VALUE(s, '$' PASSING 1 AS x)",
    "JSON_VALUE(s)",
    "JSON_VALUE(k, '$')",
    "JSON_VALUE(s, '$' TRUE ON EMPTY)",
    "JSON_QUERY(s, '$' RETURNING INT)",
    "JSON_EXISTS(s, '$' ERROR ON ERROR)",
    "JSON_OBJECT(s)",
    "JSON_OBJECT('a')",
    "JSON_OBJECT(1 VALUE 2)",
    "FROM_JSON(s, 'a NOTHING')",
    "FROM_JSON(s, s)",
    "FROM_JSON(s, 'INT')",
    "FROM_JSON(s, 'a INT, a INT')",
    "FROM_JSON(s, 'a BINARY')",
    "TO_JSON(s)",
    "s -> s",
    "k -> 'a'",
    "k:a",
    "PARSE_JSON(s) = PARSE_JSON(s)",
    "PARSE_JSON(s) + 1",
    "CAST(PARSE_JSON(s) AS BINARY)",
    "VARIANT_GET(s, '$')",
    "VARIANT_GET(PARSE_JSON(s), 'a')",
    "VARIANT_GET(PARSE_JSON(s), '$', 'nothing')",
    "s:[",
    "s IS JSON WITH UNIQUE KEYS",
    "PARSE_JSON(s):a > 1",
)


def _refusal(env: rh.Environment, text: str) -> str:
    """Return the message of the error for an expression; an empty string if it is accepted."""
    try:
        env.sql(f"SELECT {text} AS v FROM docs")
    except RheosError as error:
        return str(error)
    return ""


def test_wrong_calls_are_refused_at_their_place() -> None:
    env = environment(DOCUMENTS)
    for text in REFUSED:
        assert "^" in _refusal(env, text), text


def test_aggregates_of_json() -> None:
    env = environment(['{"a":1}', '{"a":2}', None])
    env.sql(
        "SELECT JSON_OBJECTAGG(KEY CAST(k AS STRING) VALUE s ->> 'a') AS o, "
        "JSON_ARRAYAGG(s ->> 'a' ORDER BY k DESC) AS l FROM docs",
        state_ttl="forever",
    ).collect("found")
    rows = env.execute("aggregates").collected["found"].to_pylist()
    last = {"o": '{"0":"1","1":"2","2":null}', "l": '["2","1"]'}
    assert {name: rows[-1][name] for name in last} == last


def test_too_deep_and_too_large_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "[" * (json_documents.MOST_LEVELS + 1) + "]" * (json_documents.MOST_LEVELS + 1)
    wide = "[" + ",".join(["[]"] * (json_documents.MOST_LEVELS + 1)) + "]"
    ours = found([deep, wide], ["s IS JSON", "JSON_ARRAY_LENGTH(s)"])
    assert [*ours.values()] == [[False, True], [None, json_documents.MOST_LEVELS + 1]]
    monkeypatch.setattr(json_documents, "MOST_DOCUMENT_BYTES", 100)
    with pytest.raises(rh.RheosError, match="a JSON document has more than 100 bytes"):
        found([wide], ["s -> 0"])


def test_the_page_shows_what_its_query_returns() -> None:
    page = Path("docs/sql-json.md").read_text()
    rows, query, shown = re.findall(r"```(?:json|sql|text)\n(.*?)```", page, re.DOTALL)
    env = rh.Environment(runtime="simulated")
    env.register("events", env.from_source(rh.collection([*map(json.loads, rows.splitlines())])))
    env.sql(query).collect("found")
    found_rows = env.execute("page").collected["found"].sort_by("id").to_pylist()
    lines = [[*found_rows[0]], *([f"{each}" for each in row.values()] for row in found_rows)]
    assert [line.split() for line in shown.splitlines()] == lines


def test_halves_of_surrogate_pairs_become_question_marks() -> None:
    ours = found(['{"a":"\\ud83d x \\ud83d\\ude00"}'], ["s ->> 'a'", "GET_JSON_OBJECT(s, '$.a')"])
    assert [*ours.values()] == [["? x \U0001f600"]] * 2


def test_documented_differences_from_spark() -> None:
    ours = found(['{"a":{"b":"\U0001f600"}}'], ["GET_JSON_OBJECT(s, '$.a')", "PARSE_JSON(s):a::INT"])
    assert [*ours.values()] == [['{"b":"\U0001f600"}'], [None]]
