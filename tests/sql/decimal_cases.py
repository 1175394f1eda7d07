"""Expressions of decimals, over a table whose columns have narrow and wide types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.int32(), [1, 2, 3, 4, 5, 6, 7]),
    "a": (
        pa.decimal128(10, 2),
        ["12345678.12", "0.01", "-1.25", "99999999.99", "-99999999.99", "0", None],
    ),
    "b": (
        pa.decimal128(12, 4),
        ["1.0825", "0.0001", "3.3333", "-99999999.9999", "0", "2.5", "7"],
    ),
    "w": (
        pa.decimal128(38, 18),
        ["123456.789", "0.0000001", "-0.000001", "99999999999999999999", "1e15", "0", "2"],
    ),
    "v": (
        pa.decimal128(38, 18),
        ["2", "0.0000001", "3", "99999999999999999999.999999999999999999", "1000", "0", "-7.5"],
    ),
    "n": (
        pa.decimal128(38, 0),
        [
            *("99999999999999999999999999999999999999", "1", "-7", "3000000000", "0"),
            *("-99999999999999999999999999999999999999", None),
        ],
    ),
    "u": (
        pa.decimal128(38, 38),
        [
            *("0.99999999999999999999999999999999999999", "-0.5", "0", "0.1", "0.4"),
            *("0.00000000000000000000000000000000000001", "0.3"),
        ],
    ),
    "i": (pa.int32(), [2, 3, -7, 2147483647, 0, None, -2147483648]),
    "l": (pa.int64(), [2, 3, -7, 9223372036854775807, 0, None, -9223372036854775808]),
    "f": (pa.float64(), [1.005, 2.675, -0.5, 1e300, 0.1, None, 1e-7]),
    "s": (pa.string(), ["1.005", " 1e3 ", ".5", "5.", "1_000", "Infinity", "99999999999"]),
}
TABLE = pa.table(
    {
        name: pa.array(
            [
                Decimal(each) if isinstance(each, str) and pa.types.is_decimal(kind) else each
                for each in values
            ],
            kind,
        )
        for name, (kind, values) in _COLUMNS.items()
    }
)

_SIDES = (
    "a",
    "b",
    "w",
    "v",
    "n",
    "u",
    "i",
    "l",
    "2",
    "200",
    "-3",
    "1.5",
    "0.001",
    "CAST(2 AS SMALLINT)",
)
_DECIMALS = ("a", "b", "w", "n", "u", "1.5")
EXPRESSIONS: list[str] = [
    f"{one} {sign} {other}"
    for sign in ("+", "-", "*", "/", "%", "DIV")
    for one, other in [
        *((one, other) for one in ("a", "w", "u") for other in _SIDES),
        *((other, "a") for other in _SIDES),
        *(("n", "n"), ("n", "u"), ("n", "w"), ("1.5", "2"), ("2", "1.5"), ("b", "v")),
    ]
]
EXPRESSIONS += [
    f"{one} {sign} {other}"
    for sign in ("=", "<", ">=", "<=>")
    for one, other in [
        ("a", "b"),
        ("w", "v"),
        ("n", "u"),
        ("w", "n"),
        ("a", "i"),
        ("w", "2"),
        ("a", "1.250"),
        ("a", "f"),
    ]
]
EXPRESSIONS += [
    f"{function}({one}, {other})"
    for function in ("COALESCE", "GREATEST", "LEAST", "NULLIF", "NVL")
    for one, other in [
        ("a", "b"),
        ("w", "v"),
        ("n", "u"),
        ("w", "n"),
        ("a", "i"),
        ("a", "l"),
        ("a", "7"),
        ("a", "1.5"),
        ("a", "f"),
    ]
]
EXPRESSIONS += [
    f"{function}({one})"
    for function in ("ABS", "SIGN", "CEIL", "FLOOR", "ROUND", "-")
    for one in _DECIMALS
    # Spark drops the sign of a rounded number with more than 34 digits, and fails.
    if function not in ("ABS", "-") or one not in ("n", "u")
]
EXPRESSIONS += [f"ROUND({one}, {places})" for one in _DECIMALS for places in (0, 1, 2, 10, 37, 38)]
EXPRESSIONS += [
    f"ROUND({one}, {places})" for one in ("a", "b", "w", "1.5") for places in (-40, -9, -2, -1)
]
EXPRESSIONS += [
    f"CAST({one} AS {to})"
    for one in ("a", "b", "w", "n", "u", "i", "l", "f", "s", "k > 3")
    for to in (
        "DECIMAL(10, 2)",
        "DECIMAL(38, 18)",
        "DECIMAL(38, 0)",
        "DECIMAL(38, 38)",
        "DECIMAL(3, 1)",
        "DECIMAL",
    )
]
EXPRESSIONS += [
    f"CAST({one} AS {to})"
    for one in ("a", "b", "w", "n", "u", "1.5")
    for to in ("STRING", "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "BOOLEAN")
]
EXPRESSIONS += [
    *("CASE WHEN k > 3 THEN a ELSE b END", "CASE WHEN k > 3 THEN a ELSE 1 END", "IF(k > 3, w, n)"),
    *("IF(k > 3, a, l)", "IF(k > 3, 1.5, 2)", "CASE k WHEN 1.0 THEN a WHEN 2 THEN w END"),
    *("a BETWEEN 0 AND b", "w BETWEEN a AND v", "a IN (0.01, 1, -1.250)", "w IN (2, 0.0000001)"),
    *("a IN (b, 0.01)", "CONCAT('x', w)", "a + NULL", "NULL * w", "a * 1.19", "w * 1.19", "a * 1e0"),
    *(
        "(a + b) * (a - b)",
        "a * b * w",
        "a / b / 3",
        "-a * -1",
        "SQRT(a * a)",
        "POWER(b, 2)",
    ),
    *("a * CAST(2 AS INT)", "a * CAST(1.5 AS DECIMAL(10, 5))", "12345678901234567890 + 1", "1.005"),
    *("ROUND(1.005, 2)", "a * 0.00", "MOD(a, 3)", "MOD(b, v)", "a <> 0"),
]
