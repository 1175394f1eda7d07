"""JSON functions of Spark over good and bad documents, compared with Spark."""

# ruff: noqa: E501 - An expression is a line.
from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.spark_versions import frame_of, is_since
from tests.sql.json_documents import DOCUMENTS, MALFORMED, found

PATHS = (
    "$",
    "$.a",
    "$.a.b",
    "$.a.b[2].c",
    "$.a[0].b",
    "$.a[*].b",
    "$.a[*]",
    "$[*]",
    "$[*][*]",
    "$[0][1]",
    "$[1][1][0]",
    "$.a[*].b[*]",
    "$['a b']['c d']",
    "$.a b.c d",
    "$['k.l']",
    "$.k.l",
    "$.n",
    "$.t",
    "$.b",
    "$.c",
    "$.d",
    "$.e",
    "$.f",
    "$.c[*]",
    "$.c[3]",
    "$[2].a",
    "$.*",
    "$['*']",
    "$..a",
    "a",
    "$.a[",
    "$.a[-1]",
    " $.a",
    "$. a",
    "$.a ",
    "",
)
EXPRESSIONS = (
    *(f"GET_JSON_OBJECT(s, '{path}')" for path in (each.replace("'", "\\'") for each in PATHS)),
    "GET_JSON_OBJECT(s, CONCAT('$.', 'a'))",
    "GET_JSON_OBJECT(s, NULL)",
    "JSON_ARRAY_LENGTH(s)",
    "JSON_OBJECT_KEYS(s)",
    "TO_JSON(FROM_JSON(s, 'a STRING, b STRING, c STRING, d STRING, e STRING, f STRING'))",
    "TO_JSON(FROM_JSON(s, 'a INT, b BIGINT, c DOUBLE, d INT'))",
    "TO_JSON(FROM_JSON(s, 'STRUCT<a: DECIMAL(10, 2), b: DATE, c: ARRAY<INT>, d: STRUCT<a: STRING>>'))",
    "TO_JSON(FROM_JSON(s, 't BOOLEAN, n INT, e FLOAT'))",
    "TO_JSON(FROM_JSON(s, 'a STRUCT<b: ARRAY<STRING>>'))",
    "TO_JSON(FROM_JSON(s, 'a MAP<STRING, STRING>, b MAP<STRING, INT>, d MAP<STRING, ARRAY<INT>>'))",
    "TO_JSON(FROM_JSON(s, 'ARRAY<MAP<STRING, STRUCT<a: INT>>>'), MAP('ignoreNullFields', 'false'))",
    "FROM_JSON(s, 'MAP<STRING, INT>')['c']",
    "FROM_JSON(s, 'ARRAY<STRING>')",
    "FROM_JSON(s, 'ARRAY<DOUBLE>')",
    "TO_JSON(FROM_JSON(s, 'ARRAY<STRUCT<a: INT>>'))",
    "FROM_JSON(s, 'a INT') IS NULL",
    'TO_JSON(FROM_JSON(\'{"b":1700000000,"c":"2026-03-01T12:00:00Z"}\', \'b TIMESTAMP, c TIMESTAMP\'))',
    'TO_JSON(FROM_JSON(\'[{"a":"x","b":1},{"a":2}]\', \'ARRAY<STRUCT<a: INT, b: INT>>\'))',
)
_FORMATS = "MAP('dateFormat', 'dd.MM.yyyy', 'timestampFormat', 'HH:mm d/M/yy')"
_OF_SCHEMAS = (
    '{"a":1,"b":"x","c":1.5,"d":null,"e":[1,2.5],"f":{"g":true},"h":[],"k k":12345678901,"n":{}}',
    '{"p":["x",1],"q":[[1],[2.5]],"m":[{"a":1},{"b":"x"}],"o":[null,1],"r":[{}],"s":1e3}',
    '{"a":[1,true],"b":[{"a":1},[1]],"c":[1,12345678901234567890],"d":123456789012345678901234567890123456789}',
    '[{"col":0}]',
    "null",
    "1",
    "",
    "{}",
)
OF_VALUES = (
    "TO_JSON(ARRAY(k, NULL))",
    "TO_JSON(ARRAY(DATE '2026-03-01'))",
    "TO_JSON(ARRAY(TIMESTAMP '2026-03-01 12:00:00.123'))",
    "TO_JSON(ARRAY(1.50, 20))",
    "TO_JSON(ARRAY(CAST('NaN' AS DOUBLE), CAST('-Infinity' AS DOUBLE), 1e10))",
    "TO_JSON(ARRAY('a\"b', 'é', CHR(1)))",
    "TO_JSON(ARRAY(true))",
    "TO_JSON(MAP('a\"b', 1.50, '', NULL))",
    "TO_JSON(MAP(k, ARRAY(MAP(true, s))))",
    "TO_JSON(MAP('m', NAMED_STRUCT('n', CAST(NULL AS INT), 'k', k)))",
    "TO_JSON(NAMED_STRUCT('z', 1, 'n', CAST(NULL AS MAP<STRING, INT>), 'a', MAP('y', 1, 'x', 2)), MAP('sortKeys', 'true'))",
    "TO_JSON(NAMED_STRUCT('n', CAST(NULL AS INT)), MAP('IGNORENULLFIELDS', 'false'))",
    f"TO_JSON(NAMED_STRUCT('d', DATE '2026-03-01', 't', ARRAY(TIMESTAMP '2026-03-01 12:00:00')), {_FORMATS})",
    f"""TO_JSON(FROM_JSON('{{"d":"01.03.2026","t":"12:30 1/3/26"}}', 'd DATE, t TIMESTAMP', {_FORMATS}))""",
    f"""TO_JSON(FROM_JSON('{{"d":"2026-03-01","t":60}}', 'd DATE, t TIMESTAMP', {_FORMATS}))""",
    *(f"SCHEMA_OF_JSON('{text}')" for text in _OF_SCHEMAS),
    "TYPEOF(s)",
    "TYPEOF(ARRAY(k))",
)
VARIANTS = (
    "TO_JSON(TRY_PARSE_JSON(s))",
    "TRY_CAST(TRY_PARSE_JSON(s) AS STRING)",
    "TRY_CAST(TRY_PARSE_JSON(s) AS INT)",
    "TRY_CAST(TRY_PARSE_JSON(s) AS DOUBLE)",
    "TRY_CAST(TRY_PARSE_JSON(s) AS BOOLEAN)",
    "IS_VARIANT_NULL(TRY_PARSE_JSON(s))",
    "TO_JSON(VARIANT_GET(TRY_PARSE_JSON(s), '$.a'))",
    "VARIANT_GET(TRY_PARSE_JSON(s), '$[\"k.l\"]', 'string')",
    "TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$.a', 'int')",
    "TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$.b', 'date')",
    "TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$.c', 'decimal(10, 2)')",
    "TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$[0]', 'array<int>')",
    "TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$.c', 'array<int>')",
    "TO_JSON(TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$', 'struct<a: string, t: boolean>'))",
    "TYPEOF(TRY_PARSE_JSON(s))",
    "TO_JSON(TO_VARIANT_OBJECT(ARRAY(k)))",
    "TO_JSON(NAMED_STRUCT('v', ARRAY(TRY_PARSE_JSON(s))))",
    "TO_JSON(TRY_VARIANT_GET(TRY_PARSE_JSON(s), '$.a', 'map<string, string>'))",
)


@pytest.mark.spark
def test_json_functions_agree_with_spark(unansi: Any) -> None:
    documents = (*DOCUMENTS, *MALFORMED)
    expressions = [*EXPRESSIONS, *OF_VALUES, *(VARIANTS if is_since("4.0") else ())]
    ours = found(documents, expressions)
    rows = pa.table({"k": pa.array(range(len(documents)), pa.int32()), "s": pa.array(documents)})
    frame_of(unansi, rows).coalesce(1).createOrReplaceTempView("docs")
    columns = ", ".join(f"{text} AS v{place}" for place, text in enumerate(expressions))
    theirs = unansi.sql(f"SELECT {columns} FROM docs ORDER BY k").collect()
    wrong = []
    for place, text in enumerate(expressions):
        for document, one, row in zip(documents, ours[text], theirs, strict=True):
            if one != row[place] and str(one) != str(row[place]):
                wrong.append(f"{text} of {document!r} is {one!r}, of Spark {row[place]!r}")
    assert not wrong, "\n".join(wrong)
