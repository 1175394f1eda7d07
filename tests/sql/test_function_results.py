"""Results of functions that Spark's documentation, Flink's or PostgreSQL's states, in one query."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import RheosError

RESULTS: dict[str, Any] = {
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
    "ELT(1, 'scala', 'java')": "scala",
    "FIND_IN_SET('ab', 'abc,b,ab,c,def')": 3,
    "LEVENSHTEIN('kitten', 'sitting')": 3,
    "SOUNDEX('Miller')": "M460",
    "ASCII('222')": 50,
    "CHR(65)": "A",
    "DECODE(6, 1, 'Southlake', 2, 'San Francisco', 'Non domestic')": "Non domestic",
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
    "CRC32('Spark')": 1557323817,
    "URL_ENCODE('https://spark.apache.org')": "https%3A%2F%2Fspark.apache.org",
    "URL_DECODE('https%3A%2F%2Fspark.apache.org')": "https://spark.apache.org",
    "PARSE_URL('http://spark.apache.org/path?query=1', 'HOST')": "spark.apache.org",
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
    "BIT_COUNT(7)": 3,
    "GETBIT(11, 0)": 1,
    "WIDTH_BUCKET(5.3, 0.2, 10.6, 5)": 3,
    "PMOD(-10, 3)": 2,
    "BROUND(2.5, 0)": Decimal(2),
    "BROUND(25, -1)": 20,
    "CEIL(3.1411, 3)": Decimal("3.142"),
    "CEIL(3.1411, -3)": Decimal(1000),
    "FLOOR(3.1411, 3)": Decimal("3.141"),
    "FACTORIAL(5)": 120,
    "NANVL(CAST('NaN' AS DOUBLE), 123)": 123.0,
    "TRY_ADD(2147483647, 1)": None,
    "TRY_DIVIDE(3, 2)": 1.5,
    "ZEROIFNULL(CAST(NULL AS INT))": 0,
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
