"""The functions that Flink's documentation lists, by group: a call of each form, and its value.

The values follow from the documented meaning. Strings stand for values whose type has no literal here:
dates and times are compared as strings. `Refused` is a function that no query computes, with the reason.
"""

# ruff: noqa: E501 - A form is a line.
from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import rheos as rh


@dataclass(frozen=True)
class Refused:
    """A documented function that is an error at its place; `why` is a part of the message."""

    why: str


SCALARS: dict[str, dict[str, Any]] = {
    "comparison": {
        "1 = 1": True, "1 <> 2": True, "1 > 2": False, "2 >= 2": True, "1 < 2": True, "1 <= 0": False,
        "n IS NULL": True, "1 IS NOT NULL": True, "1 IS DISTINCT FROM n": True, "n IS NOT DISTINCT FROM n": True,
        "12 BETWEEN 10 AND 15": True, "12 BETWEEN SYMMETRIC 15 AND 12": True, "12 BETWEEN ASYMMETRIC 15 AND 12": False,
        "12 NOT BETWEEN 15 AND 12": True, "12 NOT BETWEEN SYMMETRIC 15 AND 12": False,
        "'abc' LIKE 'a%'": True, "'a%c' LIKE 'a!%c' ESCAPE '!'": True, "'abc' NOT LIKE 'a_c'": False,
        "'abc' SIMILAR TO 'a(b|x)c'": True, "'abc' NOT SIMILAR TO 'a%'": False,
        "1 IN (1, 2)": True, "3 NOT IN (1, 2)": True, "3 IN (1, n)": None,
    },
    "logical": {
        "TRUE OR b": True, "FALSE AND b": False, "NOT FALSE": True, "FALSE IS FALSE": True, "b IS NOT FALSE": True,
        "TRUE IS TRUE": True, "b IS NOT TRUE": True, "b IS UNKNOWN": True, "TRUE IS NOT UNKNOWN": True,
    },
    "arithmetic": {
        "+ 1": 1, "- 1": -1, "1 + 2": 3, "1 - 2": -1, "2 * 3": 6, "7 / 2": 3, "7 % 3": 1, "POWER(2, 3)": 8.0, "ABS(-2)": 2,
        "SQRT(4)": 2.0, "LN(1)": 0.0, "LOG10(100)": 2.0, "LOG2(8)": 3.0, "LOG(1)": 0.0, "LOG(2, 8)": 3.0, "EXP(0)": 1.0,
        "CEIL(1.5)": 2, "CEILING(1.5)": 2, "FLOOR(1.5)": 1, "SIN(0)": 0.0, "SINH(0)": 0.0, "COS(0)": 1.0, "TAN(0)": 0.0,
        "TANH(0)": 0.0, "COT(1) > 0.64": True, "ASIN(0)": 0.0, "ACOS(1)": 0.0, "ATAN(0)": 0.0, "ATAN2(0, 1)": 0.0, "COSH(0)": 1.0,
        "DEGREES(0)": 0.0, "RADIANS(0)": 0.0, "SIGN(-3)": -1, "ROUND(1.25, 1)": 1.3, "PI() > 3.14": True, "PI > 3.14": True, "E() > 2.71": True,
        "E > 2.71": True, "RAND() < 1": Refused("RAND"), "RAND_INTEGER(3)": Refused("RAND_INTEGER"), "UUID()": Refused("UUID"),
        "BIN(4)": "100", "HEX(20)": "14", "HEX('hello')": "68656C6C6F", "UNHEX('61') = X'61'": True, "TRUNCATE(42.345, 2)": 42.34, "TRUNCATE(42.7)": 42,
        "CONV('100', 2, 10)": "4", "MOD(7, 3)": 1,
    },
    "string": {
        "'a' || 'b'": "ab", "CHAR_LENGTH('abc')": 3, "CHARACTER_LENGTH('abc')": 3, "UPPER('a')": "A", "LOWER('A')": "a",
        "POSITION('b' IN 'abc')": 2, "TRIM(' a ')": "a", "TRIM(LEADING 'x' FROM 'xax')": "ax", "TRIM(TRAILING 'x' FROM 'xax')": "xa",
        "TRIM(BOTH 'x' FROM 'xax')": "a", "LTRIM(' a')": "a", "RTRIM('a ')": "a", "BTRIM(' a ')": "a", "BTRIM('xax', 'x')": "a", "REPEAT('ab', 2)": "abab",
        "REGEXP_REPLACE('foobar', 'oo|ar', '')": "fb", "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6)": "xxxxxxxxx",
        "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)": "xxxxxxxxxst", "SUBSTRING('abcd' FROM 2)": "bcd", "SUBSTRING('abcd' FROM 2 FOR 2)": "bc",
        "SUBSTRING('abcd', 2, 2)": "bc", "SUBSTR('abcd', 2)": "bcd", "REPLACE('hello', 'l', 'L')": "heLLo", "REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)": "bar",
        "REGEXP_COUNT('aXbXc', 'X')": 2, "REGEXP_EXTRACT_ALL('a1b2', '[0-9]', 0)": ["1", "2"], "REGEXP_INSTR('abc', 'b')": 2, "REGEXP_SUBSTR('abc', 'b.')": "bc",
        "REGEXP('abc', 'b')": True, "TRANSLATE('abc', 'ab', 'xy')": "xyc", "INITCAP('ab cd')": "Ab Cd", "CONCAT('a', 'b', 'c')": "abc", "CONCAT_WS('-', 'a', n_s, 'b')": "a-b",
        "LPAD('hi', 4, '?')": "??hi", "RPAD('hi', 4, '?')": "hi??", "FROM_BASE64('aGVsbG8=')": "hello", "TO_BASE64('hello')": "aGVsbG8=", "ASCII('abc')": 97, "CHR(97)": "a",
        "DECODE(ENCODE('a', 'UTF-8'), 'UTF-8')": "a", "ENCODE('a', 'UTF-8') = X'61'": True, "INSTR('abc', 'b')": 2, "LEFT('abc', 2)": "ab", "RIGHT('abc', 2)": "bc", "LOCATE('b', 'abcb')": 2,
        "LOCATE('b', 'abcb', 3)": 4, "URL_DECODE('a%20b')": "a b", "TRY_URL_DECODE('%')": None, "URL_ENCODE('a b')": "a+b", "PARSE_URL('http://a.com/p?k=v', 'HOST')": "a.com",
        "PARSE_URL('http://a.com/p?k=v', 'QUERY', 'k')": "v", "PRINTF('%d-%s', 1, 'a')": "1-a", "REVERSE('abc')": "cba", "SPLIT_INDEX('a,b,c', ',', 1)": "b", "STR_TO_MAP('k1=v1,k2=v2')['k2']": "v2",
        "STR_TO_MAP('k1:v1;k2:v2', ';', ':')['k1']": "v1", "SUBSTRING_INDEX('a.b.c', '.', 2)": "a.b", "SUBSTR('abcd', 2, 2)": "bc", "STARTSWITH('abc', 'ab')": True, "ENDSWITH('abc', 'bc')": True,
        "ELT(2, 'a', 'b')": "b", "SPLIT('a,b', ',')": ["a", "b"], "IS_ALPHA('ab')": True, "IS_DECIMAL('1.5')": True, "IS_DIGIT('12')": True, "JSON_QUOTE('a')": '"a"', "JSON_UNQUOTE('\"a\"')": "a",
    },
    "temporal": {
        "CAST(DATE '2026-03-01' AS STRING)": "2026-03-01", "CAST(TIMESTAMP '2026-03-01 12:00:00' AS DATE) = DATE '2026-03-01'": True,
        "TIMESTAMP '2026-03-01 12:00:00' + INTERVAL '1' DAY = TIMESTAMP '2026-03-02 12:00:00'": True, "DATE '2026-03-01' + INTERVAL '1' MONTH = DATE '2026-04-01'": True,
        "TIME '12:30:00'": Refused("TIME"), "LOCALTIME": Refused("LOCALTIME"), "LOCALTIMESTAMP": Refused("LOCALTIMESTAMP"), "CURRENT_TIME": Refused("CURRENT_TIME"), "CURRENT_DATE": Refused("CURRENT_DATE"),
        "CURRENT_TIMESTAMP": Refused("CURRENT_TIMESTAMP"), "NOW()": Refused("NOW"), "CURRENT_ROW_TIMESTAMP()": Refused("CURRENT_ROW_TIMESTAMP"), "UNIX_TIMESTAMP()": Refused("UNIX_TIMESTAMP"),
        "EXTRACT(DAY FROM DATE '2006-06-05')": 5, "EXTRACT(HOUR FROM TIMESTAMP '2026-03-01 12:34:56')": 12, "YEAR(DATE '1994-09-27')": 1994, "QUARTER(DATE '1994-09-27')": 3, "MONTH(DATE '1994-09-27')": 9,
        "WEEK(DATE '1994-09-27')": 39, "DAYOFYEAR(DATE '1994-09-27')": 270, "DAYOFMONTH(DATE '1994-09-27')": 27, "DAYOFWEEK(DATE '1994-09-27')": 3, "HOUR(TIMESTAMP '1994-09-27 13:14:15')": 13,
        "MINUTE(TIMESTAMP '1994-09-27 13:14:15')": 14, "SECOND(TIMESTAMP '1994-09-27 13:14:15')": 15, "FLOOR(TIMESTAMP '2026-03-01 12:44:31' TO MINUTE) = TIMESTAMP '2026-03-01 12:44:00'": True,
        "CEIL(TIMESTAMP '2026-03-01 12:44:31' TO MINUTE) = TIMESTAMP '2026-03-01 12:45:00'": True, "FLOOR(DATE '2026-03-15' TO MONTH) = DATE '2026-03-01'": True,
        "(TIMESTAMP '2026-03-01 10:00:00', INTERVAL '2' HOUR) OVERLAPS (TIMESTAMP '2026-03-01 11:00:00', TIMESTAMP '2026-03-01 13:00:00')": True,
        "(DATE '2026-03-01', INTERVAL '1' DAY) OVERLAPS (DATE '2026-03-02', DATE '2026-03-03')": True, "TO_TIMESTAMP_LTZ(1500.75) = TIMESTAMP '1970-01-01 00:00:01.5'": True,
        "DATE_FORMAT(TIMESTAMP '2026-03-01 12:34:56', 'yyyy/MM/dd HH:mm')": "2026/03/01 12:34", "TIMESTAMPADD(WEEK, 1, DATE '2003-01-02') = DATE '2003-01-09'": True,
        "TIMESTAMPDIFF(DAY, TIMESTAMP '2003-01-02 10:00:00', TIMESTAMP '2003-01-03 10:00:00')": 1, "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')": "1969-12-31 16:00:00",
        "FROM_UNIXTIME(44)": "1970-01-01 00:00:44", "FROM_UNIXTIME(44, 'HH:mm:ss')": "00:00:44", "UNIX_TIMESTAMP('1970-01-01 00:00:44')": 44, "UNIX_TIMESTAMP('1970/01/02', 'yyyy/MM/dd')": 86400,
        "TO_DATE('2026-03-01') = DATE '2026-03-01'": True, "TO_DATE('01.03.2026', 'dd.MM.yyyy') = DATE '2026-03-01'": True, "TO_TIMESTAMP_LTZ(1000, 3) = TIMESTAMP '1970-01-01 00:00:01'": True,
        "TO_TIMESTAMP_LTZ(1, 0) = TIMESTAMP '1970-01-01 00:00:01'": True, "TO_TIMESTAMP_LTZ(1000) = TIMESTAMP '1970-01-01 00:00:01'": True, "TO_TIMESTAMP('2026-03-01 12:00:00') = TIMESTAMP '2026-03-01 12:00:00'": True,
        "TO_TIMESTAMP_LTZ('2026-03-01 12:00:00') = TIMESTAMP '2026-03-01 12:00:00'": True,
        "TO_TIMESTAMP('2026/03/01', 'yyyy/MM/dd') = TIMESTAMP '2026-03-01 00:00:00'": True, "CURRENT_WATERMARK(ts)": Refused("CURRENT_WATERMARK"),
    },
    "conditional": {
        "CASE 1 WHEN 1, 2 THEN 'a' ELSE 'b' END": "a", "CASE 3 WHEN 1, 2 THEN 'a' WHEN 4, n THEN 'c' END": None, "CASE WHEN 1 = 2 THEN 'a' ELSE 'b' END": "b", "NULLIF(5, 5)": None, "COALESCE(n, 5)": 5, "IF(5 > 3, 5, 3)": 5, "IFNULL(n, 5)": 5,
        "GREATEST(1, 3, 2)": 3, "GREATEST(1, n)": None, "LEAST(2, 1)": 1, "LEAST(1, n)": None,
    },
    "type conversion": {"CAST('42' AS INT)": 42, "TRY_CAST('abc' AS INT)": None, "TYPEOF(1)": "INT NOT NULL"},
    "collection": {
        "CARDINALITY(ARRAY[1, 2])": 2, "ARRAY[5, 6][1]": 5, "ELEMENT(ARRAY[7])": 7, "CARDINALITY(MAP['a', 1])": 1, "MAP['a', 1]['a']": 1, "ARRAY_APPEND(ARRAY[1], 2)": [1, 2], "ARRAY_CONTAINS(ARRAY[1, 2], 2)": True,
        "ARRAY_DISTINCT(ARRAY[1, 1])": [1], "ARRAY_POSITION(ARRAY[5, 6], 6)": 2, "ARRAY_PREPEND(ARRAY[1], 0)": [0, 1], "ARRAY_REMOVE(ARRAY[1, 2, 1], 1)": [2], "ARRAY_REVERSE(ARRAY[1, 2])": [2, 1],
        "ARRAY_SLICE(ARRAY[1, 2, 3], 2, 3)": [2, 3], "ARRAY_SORT(ARRAY[3, 1, 2])": [1, 2, 3], "ARRAY_SORT(ARRAY[3, 1, 2], FALSE)": [3, 2, 1], "ARRAY_SORT(ARRAY[1, n], TRUE, FALSE)": [1, None], "ARRAY_UNION(ARRAY[1], ARRAY[2])": [1, 2], "ARRAY_CONCAT(ARRAY[1], ARRAY[2])": [1, 2],
        "ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2])": [1], "ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2])": [2], "ARRAY_MAX(ARRAY[1, 2])": 2, "ARRAY_MIN(ARRAY[1, 2])": 1, "ARRAY_JOIN(ARRAY['a', 'b'], ',')": "a,b",
        "ARRAY_JOIN(ARRAY['a', n_s], ',', '?')": "a,?", "MAP_KEYS(MAP['a', 1])": ["a"], "MAP_VALUES(MAP['a', 1])": [1], "CARDINALITY(MAP_ENTRIES(MAP['a', 1]))": 1, "MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])['a']": 1,
        "MAP_UNION(MAP['a', 1], MAP['b', 2])['b']": 2,
    },
    "JSON": {
        "'1' IS JSON": True, "'{}' IS JSON OBJECT": True, "'[]' IS JSON ARRAY": True, "'1' IS JSON SCALAR": True, "'x' IS NOT JSON": True, "JSON_EXISTS('{\"a\": 1}', '$.a')": True,
        "JSON_STRING(1)": "1", "JSON_VALUE('{\"a\": \"x\"}', '$.a')": "x", "JSON_VALUE('{\"a\": 1}', '$.a' RETURNING INT)": 1, "JSON_VALUE('{}', 'lax $.b' DEFAULT 'd' ON EMPTY)": "d",
        "JSON_QUERY('{\"a\": [1]}', '$.a')": "[1]", "JSON_QUERY('{\"a\": 1}', '$.a' WITH WRAPPER)": "[1]", "JSON_OBJECT('a' VALUE 1)": '{"a":1}', "JSON_OBJECT(KEY 'a' VALUE n ABSENT ON NULL)": "{}",
        "JSON_ARRAY(1, 'a')": '[1,"a"]', "JSON_ARRAY(n NULL ON NULL)": "[null]", "JSON_OBJECT('a' VALUE JSON('[1]'))": '{"a":[1]}',
    },
    "variant": {"CAST(PARSE_JSON('1') AS INT)": 1, "TRY_PARSE_JSON('x') IS NULL": True, "CAST(PARSE_JSON('{\"a\": 1}')['a'] AS INT)": 1, "JSON_STRING(PARSE_JSON('[1]'))": "[1]"},
    "value construction": {"ROW(1, 'a') IS NOT NULL": True, "(1, 'a') IS NOT NULL": True, "ARRAY[1, 2]": [1, 2], "MAP['a', 1]['a']": 1, "OBJECT_OF('com.Point', 'x', 1) IS NULL": Refused("OBJECT_OF")},
    "value access": {"t.r.x": 1, "r.x": 1},
    "hash": {
        "MD5('a')": "0cc175b9c0f1b6a831c399e269772661", "SHA1('a')": "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", "SHA224('a')": "abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5",
        "SHA256('a')": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "LENGTH(SHA384('a'))": 96, "LENGTH(SHA512('a'))": 128, "SHA2('a', 224)": "abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5",
    },
    "time interval units": {
        f"CAST(TIMESTAMP '2026-03-01 00:00:00' + INTERVAL {length} AS STRING)": f"{found}" for length, found in {
            "'1' SECOND": "2026-03-01 00:00:01", "'1' MINUTE": "2026-03-01 00:01:00", "'1' HOUR": "2026-03-01 01:00:00", "'1' DAY": "2026-03-02 00:00:00", "'1' MONTH": "2026-04-01 00:00:00", "'1' YEAR": "2027-03-01 00:00:00",
            "'1-2' YEAR TO MONTH": "2027-05-01 00:00:00", "'1 02' DAY TO HOUR": "2026-03-02 02:00:00", "'1 02:03' DAY TO MINUTE": "2026-03-02 02:03:00", "'1 02:03:04' DAY TO SECOND": "2026-03-02 02:03:04",
            "'2:03' HOUR TO MINUTE": "2026-03-01 02:03:00", "'2:03:04' HOUR TO SECOND": "2026-03-01 02:03:04", "'3:04' MINUTE TO SECOND": "2026-03-01 00:03:04", "'1' WEEK": "2026-03-08 00:00:00", "'1' QUARTER": "2026-06-01 00:00:00",
        }.items()
    },
}  # fmt: skip
"""By group: expressions over the table t of `ROW`, and their values."""
SCALARS["time interval units"] |= {
    f"EXTRACT({unit} FROM TIMESTAMP '2026-03-01 12:34:56.789')": value
    for unit, value in {
        **{"MILLENNIUM": 3, "CENTURY": 21, "DECADE": 202, "YEAR": 2026, "QUARTER": 1, "MONTH": 3},
        **{"WEEK": 9, "DAY": 1, "DOY": 60, "DOW": 1, "HOUR": 12, "MINUTE": 34, "SECOND": 56},
        **{"EPOCH": 1772368496, "ISODOW": 7, "ISOYEAR": 2026},
    }.items()
}

AGGREGATES: dict[str, Any] = {
    "COUNT(*)": 4, "COUNT(v)": 3, "COUNT(DISTINCT v)": 2, "COUNT(DISTINCT v, s)": 3, "AVG(v)": 4 / 3, "AVG(DISTINCT v)": 1.5, "SUM(v)": 4, "SUM(DISTINCT v)": 3, "MAX(v)": 2, "MIN(v)": 1,
    "STDDEV_POP(v) < STDDEV_SAMP(v)": True, "VAR_POP(v) < VAR_SAMP(v)": True, "VARIANCE(v) = VAR_SAMP(v)": True, "COLLECT(DISTINCT v)": [1, 2], "FIRST_VALUE(v)": 1, "LAST_VALUE(s)": "c", "LISTAGG(s)": "a,b,c",
    "LISTAGG(s, '-')": "a-b-c", "LISTAGG(DISTINCT s, '-')": "a-b-c", "ARRAY_AGG(v)": [1, 2, 1], "ARRAY_AGG(DISTINCT v)": [1, 2], "PERCENTILE(v, 0.5)": 1.0, "PERCENTILE(v, ARRAY[0, 1])": [1.0, 2.0], "PERCENTILE(v, 0.5, v)": 1.0,
    "JSON_OBJECTAGG(KEY s VALUE v)": '{"a":1,"b":2,"c":1}', "JSON_ARRAYAGG(v)": "[1,2,1]", "JSON_ARRAYAGG(v NULL ON NULL)": "[1,2,1,null]", "APPROX_COUNT_DISTINCT(v)": 2, "GROUPING(k)": 0, "GROUPING_ID(k)": 0, "GROUP_ID()": 0,
    "COUNT(*) FILTER (WHERE v = 1)": 2,
}  # fmt: skip
"""Calls over the rows of `ROWS`, grouped by k, and their values."""

OVERS: dict[str, list[Any]] = {
    "ROW_NUMBER()": [1, 2, 3], "RANK()": [1, 2, 3], "DENSE_RANK()": [1, 2, 3], "PERCENT_RANK()": [0.0, 0.5, 1.0], "CUME_DIST()": [1 / 3, 2 / 3, 1.0], "NTILE(3)": [1, 2, 3], "LEAD(s)": ["b", "c", None], "LAG(s, 1, '-')": ["-", "a", "b"],
}  # fmt: skip
"""Calls over the strings a, b and c in their order, and their values."""

_TABLES = """
CREATE TABLE t (n INT, n_s STRING, b BOOLEAN, r ROW<x INT, y INT>, ts TIMESTAMP(3));
INSERT INTO t VALUES (NULL, NULL, NULL, CAST(ROW(1, 2) AS ROW<x INT, y INT>),
    TIMESTAMP '2026-03-01 12:00:00');
CREATE TABLE g (k INT, v INT, s STRING, at INT);
INSERT INTO g VALUES (1, 1, 'a', 1), (1, 2, 'b', 2), (1, 1, 'c', 3), (1, NULL, NULL, 4);
CREATE TABLE o (s STRING, p INT);
INSERT INTO o VALUES ('a', 1), ('b', 1), ('c', 1);
"""


GAPS = frozenset(
    {
        *("PI > 3.14", "E > 2.71"),
        *("ARRAY_SORT(ARRAY[3, 1, 2], FALSE)", "ARRAY_SORT(ARRAY[1, n], TRUE, FALSE)"),
        *("JSON_OBJECT('a' VALUE JSON('[1]'))", "CAST(PARSE_JSON('{\"a\": 1}')['a'] AS INT)"),
        *("(1, 'a') IS NOT NULL", "GROUPING(k)", "GROUPING_ID(k)", "GROUP_ID()", "TYPEOF(1)"),
    }
)
"""Forms that are not computed yet, or have another value."""


@dataclass(frozen=True, eq=False)
class Form:
    """A documented form of a group: its query without the clauses after the calls, and its value."""

    group: str
    call: str
    value: Any

    @property
    def source(self) -> str:
        """Return the rest of the query."""
        return _SOURCES.get(self.group, "FROM t")

    @property
    def item(self) -> str:
        """Return the column of SELECT."""
        return f"{self.call} OVER (PARTITION BY p ORDER BY s)" if self.group == "over" else self.call


_SOURCES = {"aggregate": "FROM g GROUP BY k", "over": "FROM o"}
FORMS = (
    *(Form(group, *form) for group, forms in SCALARS.items() for form in forms.items()),
    *(Form("aggregate", *form) for form in AGGREGATES.items()),
    *(Form("over", *form) for form in OVERS.items()),
)


def judged() -> dict[Form, str]:
    """Return what is wrong with each form; an empty string if nothing is."""
    env = rh.Environment(runtime="simulated")
    env._sql_session().say = lambda text: None
    env.sql_script(f"SET dialect = flink; {_TABLES}")
    found: dict[Form, str] = {}
    computed: dict[str, list[Form]] = {}
    for form in FORMS:
        try:
            env.sql(f"SELECT {form.item} AS x {form.source}", dialect="flink")
        except rh.RheosError as error:
            is_placed = "^" in (error.detail or "")
            is_meant = isinstance(form.value, Refused) and form.value.why in error.what
            found[form] = "" if is_placed and is_meant else error.what
        else:
            computed.setdefault(form.source, []).append(form)
    for source, forms in computed.items():
        items = ", ".join(f"{form.item} AS c{place}" for place, form in enumerate(forms))
        env.sql(f"SELECT {items} {source}", dialect="flink").collect(source)
    results = env.execute("functions of Flink").collected
    for source, forms in computed.items():
        rows = _current(results[source].to_pylist())
        for place, form in enumerate(forms):
            values = [row[f"c{place}"] for row in rows]
            value = values if form.group == "over" else values[-1]
            found[form] = "" if _equal(value, form.value) else f"{value!r}, not {form.value!r}"
    return found


def _current(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table after its changes, in the order of their last change."""
    rows: list[dict[str, Any]] = []
    for change in changes:
        op = change.pop("op", "insert")
        if op in ("insert", "update_after"):
            rows.append(change)
        else:
            rows.remove(change)
    return rows


def _equal(found: Any, value: Any) -> bool:
    if isinstance(found, Decimal):
        found = float(found)
    return bool(found == value)
