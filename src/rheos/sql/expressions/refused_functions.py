"""Functions of Spark that a stream does not compute, each with the reason and what to write instead."""

from __future__ import annotations

from sqlglot import exp

from rheos.sql.expressions.table import Compiler, Typed, computes_named
from rheos.sql.text import kind

_OF_KLL = ("agg", "get_n", "get_quantile", "get_rank", "merge", "to_string")
_OF_TUPLES = ("difference", "intersection", "union")
_SKETCHES = (
    *("count_min_sketch", "hll_sketch_agg", "hll_sketch_estimate", "hll_union", "hll_union_agg"),
    *(f"approx_top_k_{part}" for part in ("accumulate", "combine", "estimate")),
    *(f"theta_{part}" for part in ("sketch_agg", "sketch_estimate", "union", "union_agg")),
    *(f"theta_{part}" for part in ("difference", "intersection", "intersection_agg")),
    *(f"kll_sketch_{part}_{of}" for part in _OF_KLL for of in ("bigint", "double", "float")),
    *(f"kll_merge_agg_{of}" for of in ("bigint", "double", "float")),
    *(f"tuple_{part}_{of}" for part in _OF_TUPLES for of in ("double", "integer")),
    *(f"tuple_{part}_theta_{of}" for part in _OF_TUPLES for of in ("double", "integer")),
    *(f"tuple_{part}_agg_{of}" for part in _OF_TUPLES[1:] for of in ("double", "integer")),
    *(
        f"tuple_sketch_{part}_{of}"
        for part in ("agg", "estimate", "summary", "theta")
        for of in ("double", "integer")
    ),
)
_GEOMETRY = ("st_asbinary", "st_geogfromwkb", "st_geomfromwkb", "st_setsrid", "st_srid")
_REASONS: dict[tuple[str, ...], tuple[str, str]] = {
    ("input_file_name", "input_file_block_start", "input_file_block_length", "spark_partition_id"): (
        "depends on where a row was read, which the rows of a stream do not carry",
        "store it in a column of the row",
    ),
    (
        *("current_user", "session_user", "current_catalog", "current_database"),
        *("current_schema", "current_path"),
    ): ("depends on a session, which a job does not have", "write the value itself"),
    ("java_method", "reflect", "try_reflect"): (
        "calls Java",
        "register a function in Python: env.register_function(...)",
    ),
    (
        *("from_xml", "to_xml", "schema_of_xml", "xpath"),
        *(f"xpath_{of}" for of in ("boolean", "double", "float", "int", "long", "number")),
        *("xpath_short", "xpath_string"),
    ): (
        "reads XML, which no query parses here",
        "parse it in a function in Python: env.register_function(...)",
    ),
    ("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"): (
        "needs a schema, which belongs to a table",
        "declare the format of the table: CREATE TABLE ... WITH ('format' = 'avro')",
    ),
    _SKETCHES: (
        "returns a sketch in a format of Spark",
        "write APPROX_COUNT_DISTINCT, APPROX_PERCENTILE or TOP_K, which keep their own sketches",
    ),
    _GEOMETRY: (
        "computes a GEOMETRY, which is no type here",
        "compute it in a function in Python: env.register_function(...)",
    ),
    ("measure", "python_worker_logs", "collations", "sql_keywords"): (
        "reads what only a session of Spark has",
        "query it with Spark",
    ),
    ("aes_encrypt", "aes_decrypt", "try_aes_decrypt"): (
        "needs a key, which a query would show",
        "encrypt in a function in Python: env.register_function(...)",
    ),
    ("collate", "collation"): (
        "selects an order of strings, but strings have one order here, that of their characters",
        "compare LOWER(name)",
    ),
}

NAMES = tuple(name for names in _REASONS for name in names)
"""The functions that are refused."""


@computes_named(*NAMES)
def refuse(compiler: Compiler, node: exp.Anonymous) -> Typed:
    name = node.name.casefold()
    reason, hint = next(why for names, why in _REASONS.items() if name in names)
    raise compiler.sql.error(f"{kind(node)} {reason}", node, hint)
