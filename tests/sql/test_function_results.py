"""Results of functions that Spark's documentation, Flink's or PostgreSQL's states, in one query."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


RESULTS: dict[str, Any] = {
    # functions of elements, and intervals
    "ARRAY_REVERSE(ARRAY(1, 2))": [2, 1],
    "TRANSFORM(ARRAY(1, 2), x -> FILTER(ARRAY(1, 2, 3), y -> y > x))": [[2, 3], [3]],
    "TRANSFORM(ARRAY(ARRAY(1, 2)), l -> AGGREGATE(l, 0, (a, x) -> a + x, a -> a * 10))": [30],
    "AGGREGATE(ARRAY(1.5, 2.2), CAST(0 AS DECIMAL(9, 1)), (a, x) -> CAST(a + x AS DECIMAL(9, 1)))": (
        Decimal("3.7")
    ),
    "DATE '2026-01-02' + 1": dt.date(2026, 1, 3),
    "DATE '2026-01-02' - 1": dt.date(2026, 1, 1),
    "DATE '2026-01-05' - DATE '2026-01-02'": dt.timedelta(days=3),
    "INTERVAL '1 day 02:30:00'": dt.timedelta(days=1, hours=2.5),
    "INTERVAL '1 day 2 hours'": dt.timedelta(days=1, hours=2),
    "INTERVAL '1 02:03:04.5' DAY TO SECOND": dt.timedelta(days=1, seconds=7384.5),
    "INTERVAL '-01:30' HOUR TO MINUTE": -dt.timedelta(hours=1.5),
    "DATE '2026-01-31' + INTERVAL '1-1' YEAR TO MONTH": dt.date(2027, 2, 28),
    "2.5 * INTERVAL '1' HOUR": dt.timedelta(hours=2.5),
    "-INTERVAL '1' HOUR / 2": -dt.timedelta(minutes=30),
    "TIMESTAMP '2026-01-02 00:00:00' - (DATE '2026-01-02' - DATE '2026-01-01') * 2": _utc(2025, 12, 31),
    # strings
    "SPLIT_PART('11.12.13', '.', 3)": "13",
    "SPLIT_INDEX('a,b', ',', 1)": "b",
    "SPLIT_INDEX('a,b', ',', 2)": None,
    "SUBSTRING_INDEX('www.apache.org', '.', 2)": "www.apache",
    "SUBSTRING_INDEX('www.apache.org', '.', -2)": "apache.org",
    "OVERLAY('Spark SQL' PLACING 'CORE' FROM 7)": "Spark CORE",
    "OVERLAY('Spark SQL' PLACING 'tructured' FROM 2 FOR 4)": "Structured SQL",
    "TRANSLATE('AaBbCc', 'abc', '123')": "A1B2C3",
    "INITCAP('sPark sql')": "Spark Sql",
    "IS_ALPHA('abß') AND NOT IS_ALPHA('a1') AND NOT IS_ALPHA('')": True,
    "IS_DIGIT('123') AND IS_DIGIT(12) AND NOT IS_DIGIT('-1')": True,
    "IS_DECIMAL('-1.5e3') AND IS_DECIMAL(1.5) AND NOT IS_DECIMAL('1.5.') AND NOT IS_DECIMAL('')": True,
    "IS_ALPHA(NULL)": None,
    "JSON_STRING('a\"b')": '"a\\"b"',
    "JSON_STRING(ARRAY(1, NULL))": "[1,null]",
    "JSON_STRING(CAST(NULL AS INT))": None,
    "JSON_QUOTE('a/\"é\\n')": '"a\\/\\"é\\n"',
    "JSON_UNQUOTE(JSON_QUOTE('a/\"é\\n'))": 'a/"é\n',
    "JSON_UNQUOTE('\"\\\\u0061\"')": "a",
    "JSON_UNQUOTE('\"\\\\ud800\"')": '"\\ud800"',
    'JSON_UNQUOTE(\'"a"b"\')': '"a"b"',
    "JSON_UNQUOTE('abc')": "abc",
    "ELEMENT(ARRAY(7))": 7,
    "ELEMENT(FILTER(ARRAY(7), x -> x > 9))": None,
    "ELT(1, 'scala', 'java')": "scala",
    "FIND_IN_SET('ab', 'abc,b,ab,c,def')": 3,
    "LEVENSHTEIN('kitten', 'sitting')": 3,
    "SOUNDEX('Miller')": "M460",
    "ASCII('222')": 50,
    "CHR(65)": "A",
    "DECODE(6, 1, 'Southlake', 2, 'San Francisco', 'Non domestic')": "Non domestic",
    "HMAC('', 'message')": None,
    "FLOOR(TIMESTAMP '2026-03-01 12:34:56' TO HOUR)": _utc(2026, 3, 1, 12),
    "CEIL(TIMESTAMP '2026-03-01 12:34:56' TO MONTH)": _utc(2026, 4, 1),
    "CEIL(TIMESTAMP '2026-03-01 12:00:00' TO HOUR)": _utc(2026, 3, 1, 12),
    "FLOOR(DATE '2026-03-05' TO MONTH)": dt.date(2026, 3, 1),
    # bytes
    "HEX(17)": "11",
    "HEX('Spark SQL')": "537061726B2053514C",
    "CAST(UNHEX('537061726B2053514C') AS STRING)": "Spark SQL",
    "TO_BASE64('Spark SQL')": "U3BhcmsgU1FM",
    "FROM_BASE64('U3BhcmsgU1FM') = X'537061726B2053514C'": True,
    "MD5('Spark')": "8cde774d6f7333752ed72cacddb05126",
    "SHA256('Spark') = SHA2('Spark', 256)": True,
    "SHA224('Spark') = SHA2('Spark', 224)": True,
    "SHA384('Spark') = SHA2('Spark', 384)": True,
    "SHA512('Spark') = SHA2('Spark', 512)": True,
    "CAST(X'61FF' AS STRING)": "a\ufffd",
    "CRC32('Spark')": 1557323817,
    "URL_ENCODE('https://spark.apache.org')": "https%3A%2F%2Fspark.apache.org",
    "URL_DECODE('https%3A%2F%2Fspark.apache.org')": "https://spark.apache.org",
    "PARSE_URL('http://spark.apache.org/path?query=1', 'HOST')": "spark.apache.org",
    "PARSE_URL('mailto:a@b.c', 'PATH')": None,
    "TO_DATE('2026-03-01 24:00:00', 'yyyy-MM-dd HH:mm:ss')": None,
    "TRY_PARSE_URL('http://spark.apache.org/path?query=1', 'QUERY', 'query')": "1",
    # patterns
    "REGEXP_COUNT('Steven Jones and Stephen Smith are the best', 'Ste(v|ph)en')": 2,
    "REGEXP_INSTR('user@spark.apache.org', '@[^.]*')": 5,
    "REGEXP_SUBSTR('Steven Jones', 'Ste(v|ph)en')": "Steven",
    "REGEXP_EXTRACT_ALL('100-200, 300-400', '([0-9]+)-([0-9]+)', 1)": ["100", "300"],
    "REGEXP_REPLACE('100-200', '([0-9]+)', 'num', 2)": "1num-num",
    "'abc' SIMILAR TO 'abc'": True,
    "'abc' SIMILAR TO 'a'": False,
    "'abc' SIMILAR TO '%(b|d)%'": True,
    "'abc' SIMILAR TO '(b|c)%'": False,
    "'a.c' SIMILAR TO 'a.c' AND NOT 'abc' SIMILAR TO 'a.c'": True,
    "'Spark' ~* 'sp'": True,
    "'Spark' LIKE ANY ('x%', '_park')": True,
    "'Spark' NOT LIKE ALL ('x%', '_park')": False,
    # numbers
    "CONV('100', 2, 10)": "4",
    "CONV('-10', 16, -10)": "-16",
    "BIN(13)": "1101",
    "SHIFTLEFT(2, 1)": 4,
    "SHIFTRIGHTUNSIGNED(4, 1)": 2,
    "~ 0": -1,
    "8 >>> 1": 4,
    "-8 >>> 1": 2147483644,
    "1 + 8 >>> 1 + 1": 2,
    "TRUNCATE(42.345, 2)": Decimal("42.34"),
    "TRUNCATE(-42.345, 2)": Decimal("-42.34"),
    "TRUNCATE(42.345e0, 2)": 42.34,
    "TRUNCATE(-0.29e0, 2)": -0.29,
    "TRUNCATE(1999e0, -3)": 1000.0,
    "TRUNCATE(1999, -3)": 1000,
    "TRUNCATE(7, 2)": 7,
    "BIT_COUNT(7)": 3,
    "GETBIT(11, 0)": 1,
    "WIDTH_BUCKET(5.3, 0.2, 10.6, 5)": 3,
    "PMOD(-10, 3)": 2,
    "BROUND(2.5, 0)": Decimal(2),
    "BROUND(25, -1)": 20,
    "BROUND(2147483647, -1)": -2147483646,
    "CEIL(3.1411, 3)": Decimal("3.142"),
    "CEIL(3.1411, -3)": Decimal(1000),
    "FLOOR(3.1411, 3)": Decimal("3.141"),
    "FACTORIAL(5)": 120,
    "NANVL(CAST('NaN' AS DOUBLE), 123)": 123.0,
    "TRY_ADD(2147483647, 1)": None,
    "TRY_DIVIDE(3, 2)": 1.5,
    "ZEROIFNULL(CAST(NULL AS INT))": 0,
    # times
    "TIMESTAMPADD(MONTH, 1, TIMESTAMP '2026-01-31 12:00:00')": _utc(2026, 2, 28, 12),
    "TIMESTAMPDIFF(MONTH, TIMESTAMP '2021-02-28 12:00:00', TIMESTAMP '2021-03-28 11:59:59')": 0,
    "TIMESTAMPDIFF(YEAR, DATE '2000-01-01', DATE '1990-03-01')": -9,
    "DATEDIFF(HOUR, TIMESTAMP '2021-02-28 12:00:00', TIMESTAMP '2021-03-28 11:59:59')": 671,
    "DATE_DIFF('day', DATE '2021-02-28', DATE '2021-03-28')": 28,
    "DATE_SUB(DATE '2026-03-01', INTERVAL 1 DAY)": dt.date(2026, 2, 28),
    "MONTHS_BETWEEN('1997-02-28 10:30:00', '1996-10-30')": 3.94959677,
    "MONTHS_BETWEEN('1997-02-28 10:30:00', '1996-10-30', false)": 3.9495967741935485,
    "NEXT_DAY('2015-01-14', 'TU')": dt.date(2015, 1, 20),
    "DAYNAME(DATE '2008-02-20')": "Wed",
    "MAKE_DATE(2019, 2, 30)": None,
    "MAKE_TIMESTAMP(2014, 12, 28, 6, 30, 45.887, 'CET')": _utc(2014, 12, 28, 5, 30, 45, 887000),
    "MAKE_TIMESTAMP(2019, 6, 30, 23, 59, 60)": _utc(2019, 7, 1),
    "FROM_UTC_TIMESTAMP('2016-08-31', 'Asia/Seoul')": _utc(2016, 8, 31, 9),
    "TO_UTC_TIMESTAMP('2016-08-31', 'Asia/Seoul')": _utc(2016, 8, 30, 15),
    "CONVERT_TIMEZONE('Europe/Brussels', TIMESTAMP_NTZ '2021-12-05 15:00:00')": dt.datetime(
        2021, 12, 5, 16
    ),
    "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')": "1969-12-31 16:00:00",
    "TIMESTAMP '2026-03-01 12:00:00' AT TIME ZONE 'Europe/Berlin'": dt.datetime(2026, 3, 1, 13),
    "TIMESTAMP_NTZ '2026-03-01 12:00:00' AT TIME ZONE '+02:00'": _utc(2026, 3, 1, 10),
    "TO_CHAR(DATE '2016-04-08', 'd/M/yy')": "8/4/16",
    "TO_VARCHAR(DATE '2016-04-08', 'QQQQ')": "2nd quarter",
    "FROM_UNIXTIME(0, 'yyyy/MM/dd')": "1970/01/01",
    "TO_DATE('31.Dec.16', 'dd.MMM.yy')": dt.date(2016, 12, 31),
    "TO_DATE('2016-02-30', 'yyyy-MM-dd')": None,
    "TO_TIMESTAMP('20161231 113059.5 PM +02:00', 'yyyyMMdd hhmmss.S a XXX')": _utc(
        2016, 12, 31, 21, 30, 59, 500000
    ),
    "UNIX_TIMESTAMP('2016-04-08', 'yyyy-MM-dd')": 1460073600,
    "TO_TIMESTAMP_LTZ(1000, 3)": _utc(1970, 1, 1, 0, 0, 1),
    "TO_TIMESTAMP_LTZ(1.5, 0)": _utc(1970, 1, 1, 0, 0, 1, 500000),
    "TIMESTAMP_SECONDS(1230219000.123)": _utc(2008, 12, 25, 15, 30, 0, 123000),
    "EXTRACT(SECOND FROM TIMESTAMP '2019-10-01 00:00:01.000001')": Decimal("1.000001"),
    "EXTRACT(EPOCH FROM TIMESTAMP '2019-10-01 00:00:01.5')": Decimal("1569888001.5"),
    "EXTRACT(CENTURY FROM DATE '2000-12-31')": 20,
    "EXTRACT(MILLISECOND FROM TIMESTAMP '2019-10-01 00:00:01.5')": 1500,
    "WEEK(DATE '2008-02-20')": 8,
    **{
        f"({one}) OVERLAPS ({other})": holds
        for one, other, holds in (
            ("DATE '2026-03-01', DATE '2026-03-05'", "DATE '2026-03-04', INTERVAL '3' DAY", True),
            ("DATE '2026-03-01', DATE '2026-03-05'", "DATE '2026-03-05', DATE '2026-03-09'", False),
            ("DATE '2026-03-05', DATE '2026-03-01'", "'2026-03-04', '2026-03-09'", True),
            ("DATE '2026-01-31', INTERVAL '1' MONTH", "DATE '2026-02-27', DATE '2026-03-09'", True),
            ("DATE '2026-01-31', INTERVAL '1' MONTH", "DATE '2026-02-28', DATE '2026-03-09'", False),
            ("DATE '2026-03-01', DATE '2026-03-01'", "DATE '2026-03-01', DATE '2026-03-01'", True),
            ("DATE '2026-03-01', DATE '2026-03-05'", "DATE '2026-03-03', NULL", True),
            ("DATE '2026-03-01', DATE '2026-03-05'", "DATE '2026-03-06', NULL", None),
        )
    },
    # arrays, maps and structs
    "ARRAY_CONCAT(ARRAY(1), ARRAY(2))": [1, 2],
    "ARRAY_CAT(ARRAY(1), ARRAY(2L))": [1, 2],
    "ARRAY_TO_STRING(ARRAY('a', NULL, 'b'), '-')": "a-b",
    "ARRAY_SLICE(ARRAY(1, 2, 3, 4), 2, 3)": [2, 3],
    "ARRAY_FIRST(ARRAY(1, 2))": 1,
    "ARRAY_LAST(ARRAY(1, 2))": 2,
    "GENERATE_SERIES(1, 10, 3)": [1, 4, 7, 10],
    "STRING_TO_ARRAY('a,,b', ',')": ["a", "", "b"],
    "STRING_TO_ARRAY('ab', NULL)": ["a", "b"],
    "STRING_TO_ARRAY('ab', '')": ["ab"],
    "STRING_TO_ARRAY('', ',')": [],
    "SEQUENCE(5, 1)": [5, 4, 3, 2, 1],
    "MAP('a', 1, 'b', 2)": [("a", 1), ("b", 2)],
    "MAP['a', 1]['a']": 1,
    "ELEMENT_AT(MAP('a', 1), 'b')": None,
    "MAP_UNION(MAP(1, 'a'), MAP(1, 'c'))": [(1, "c")],
    "STR_TO_MAP('a:1,b:2,c')": [("a", "1"), ("b", "2"), ("c", None)],
    "MAP_ENTRIES(MAP(1, 'a'))": [{"key": 1, "value": "a"}],
    "NAMED_STRUCT('a', 1, 'b', 'x')": {"a": 1, "b": "x"},
    "ROW(1, 'a')": {"f0": 1, "f1": "a"},
}

REFUSED = (
    "PARSE_URL('http://h', 'NOTHING')",
    "ENCODE('a', 'EBCDIC')",
    "REGEXP_EXTRACT_ALL('a', '(a)$', 1)",
    "REGEXP_COUNT('a', 'b*')",
    "REGEXP_REPLACE('a', 'b', 'c', 'g')",
    "HEX(1.5)",
    "BIN('1')",
    "SPLIT_PART('a', ',')",
    "BROUND(2.5, j)",
    "(1, 2) OVERLAPS (3, 4)",
    "(DATE '2026-03-01', 'x') OVERLAPS (DATE '2026-03-01', DATE '2026-03-01')",
    "DATE '2026-03-01' OVERLAPS DATE '2026-03-01'",
    "ELEMENT(7)",
    "TRUNCATE(1.5, j)",
    "IS_ALPHA(TRUE)",
    "TIMESTAMPADD(MOON, 1, TIMESTAMP '2026-01-31 12:00:00')",
    "TO_DATE('a', 'yyyy yyyy')",
    "UNIX_TIMESTAMP()",
    "NOW()",
    "FROM_UTC_TIMESTAMP('2016-08-31', 'Nowhere')",
    "MAKE_DATE(2019, 2)",
    "MAP('a')",
    "MAP('a', 1)[1][2]",
    "STRUCT(NULL)",
    "STR_TO_MAP(s, '||', ':')",
    "ARRAY_APPEND(ARRAY(1), 'a')",
    "SORT_ARRAY(ARRAY(1), j)",
)


def environment() -> rh.Environment:
    env = rh.Environment(1, runtime="simulated")
    env.register("one", env.from_source(rh.collection([{"j": 1, "s": "a"}])))
    return env


def test_functions_return_what_their_documentation_states() -> None:
    env = environment()
    columns = ", ".join(f"{text} AS v{place}" for place, text in enumerate(RESULTS))
    env.sql(f"SELECT {columns} FROM one").collect("found")
    [row] = env.execute("results").collected["found"].to_pylist()
    found = dict(zip(RESULTS, map(_plain, row.values()), strict=True))
    assert found == RESULTS


def _plain(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


@pytest.mark.parametrize("text", REFUSED)
def test_a_call_that_is_not_computed_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(RheosError) as raised:
        environment().sql(f"SELECT {text} AS v FROM one")
    assert "^" in str(raised.value)
