"""Rows of the TPC-H tables, drawn so that each of the 22 queries finds some, and their changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

import rheos as rh

MONEY = pa.decimal128(15, 2)
_TYPES = {"i": pa.int64(), "n": pa.int32(), "s": pa.string(), "m": MONEY, "d": pa.date32()}
_COLUMNS = {
    "part": "p_partkey:i p_name:s p_mfgr:s p_brand:s p_type:s p_size:n p_container:s p_retailprice:m "
    "p_comment:s",
    "supplier": "s_suppkey:i s_name:s s_address:s s_nationkey:i s_phone:s s_acctbal:m s_comment:s",
    "partsupp": "ps_partkey:i ps_suppkey:i ps_availqty:n ps_supplycost:m ps_comment:s",
    "customer": "c_custkey:i c_name:s c_address:s c_nationkey:i c_phone:s c_acctbal:m c_mktsegment:s "
    "c_comment:s",
    "orders": "o_orderkey:i o_custkey:i o_orderstatus:s o_totalprice:m o_orderdate:d "
    "o_orderpriority:s o_clerk:s o_shippriority:n o_comment:s",
    "lineitem": "l_orderkey:i l_linenumber:n l_partkey:i l_suppkey:i l_quantity:m l_extendedprice:m "
    "l_discount:m l_tax:m l_returnflag:s l_linestatus:s l_shipdate:d l_commitdate:d l_receiptdate:d "
    "l_shipinstruct:s l_shipmode:s l_comment:s",
    "nation": "n_nationkey:i n_name:s n_regionkey:i n_comment:s",
    "region": "r_regionkey:i r_name:s r_comment:s",
}
SCHEMAS = {
    table: pa.schema([(name, _TYPES[kind]) for name, kind in (each.split(":") for each in of.split())])
    for table, of in _COLUMNS.items()
}
KEYS = {"partsupp": ("ps_partkey", "ps_suppkey"), "lineitem": ("l_orderkey", "l_linenumber")} | {
    table: (SCHEMAS[table].names[0],) for table in SCHEMAS if table not in ("partsupp", "lineitem")
}

_NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "CHINA", "PERU", "INDIA"]
_OF_REGIONS = [2, 2, 1, 1, 3, 0, 1, 0]
_REGIONS = ["ASIA", "AMERICA", "EUROPE", "MIDDLE EAST"]
_BRANDS = ["Brand#12", "Brand#23", "Brand#34", "Brand#45"]
_PART_TYPES = ["PROMO BRASS", "ECONOMY ANODIZED STEEL", "SMALL BRASS", "MEDIUM POLISHED TIN"]
_CONTAINERS = ["SM CASE", "MED BOX", "LG BOX", "MED BAG", "SM BOX"]
_SIZES = [1, 3, 5, 14, 15, 15, 49]
_PHONES = ["13", "31", "23", "44"]

Row = tuple[Any, ...]


def _money(rng: Random, most: int) -> Decimal:
    return Decimal(rng.randrange(100, most * 100)) / 100


def draw_row(rng: Random, table: str, number: int, scale: int = 1) -> Row:
    """Draw a row. `number` is its place among the rows of the table, `scale` that of `final_tables`."""
    pick = rng.choice
    match table:
        case "region":
            return number, _REGIONS[number], "c"
        case "nation":
            return number, _NATIONS[number], _OF_REGIONS[number], "c"
        case "part":
            name = pick(["forest green", "green tea", "forest ivory", "red"])
            kind, brand = pick(_PART_TYPES), pick(_BRANDS)
            return number, name, "m", brand, kind, pick(_SIZES), pick(_CONTAINERS), _money(rng, 9), "c"
        case "supplier":
            comment = pick(["c", "c", "Customer some Complaints"])
            nation = rng.randrange(len(_NATIONS))
            return number, f"s{number}", "a", nation, "p", _money(rng, 99), comment
        case "partsupp":
            return number // 3, number * 7 % (12 * scale), rng.randrange(1, 400), _money(rng, 50), "c"
        case "customer":
            phone = f"{pick(_PHONES)}-555"
            segment, nation = pick(["BUILDING", "AUTO"]), rng.randrange(len(_NATIONS))
            return number, f"c{number}", "a", nation, phone, _money(rng, 99), segment, "c"
        case "orders":
            day = date(1993, 1, 1) + timedelta(days=rng.randrange(1700))
            priority = pick(["1-URGENT", "2-HIGH", "5-LOW"])
            comment = pick(["c", "special some requests"])
            customer = rng.randrange(0, 18 * scale)
            return number, customer, pick("FO"), _money(rng, 999), day, priority, "k", 0, comment
        case "lineitem":
            order, line = number // 4, number % 4
            part = rng.randrange(24 * scale)
            supplier = (part * 3 + rng.randrange(3)) * 7 % (12 * scale)
            sent = date(1994, 1, 1) + timedelta(days=rng.randrange(1200))
            promised = sent + timedelta(days=rng.randrange(-5, 20))
            received = promised + timedelta(days=rng.randrange(-4, 12))
            quantity = Decimal(pick([2, 5, 8, 11, 15, 20, 28, 110, 110]))
            discount = Decimal(pick([4, 5, 6, 7])) / 100
            amounts = (quantity, _money(rng, 900), discount, Decimal("0.02"))
            how = pick(["DELIVER IN PERSON", "NONE"]), pick(["AIR", "MAIL", "SHIP", "AIR REG"])
            marks = pick("RNA"), pick("FO")
            return order, line, part, supplier, *amounts, *marks, sent, promised, received, *how, "c"
    raise AssertionError(table)


_COUNTS = {
    "region": 4,
    "nation": 8,
    "part": 24,
    "supplier": 12,
    "partsupp": 72,
    "customer": 24,
    "orders": 60,
    "lineitem": 240,
}


def final_tables(rng: Random, scale: int = 1) -> dict[str, list[Row]]:
    """Return the rows of each table. `scale`, not a multiple of 7, multiplies the number of rows of all
    tables but nations and regions.
    """
    return {
        table: [
            draw_row(rng, table, n, scale)
            for n in range(count if table in ("nation", "region") else count * scale)
        ]
        for table, count in _COUNTS.items()
    }


def changes_to(rng: Random, table: str, rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """Yield changes whose result is the rows: some rows are wrong first, and some are deleted again."""
    width = len(KEYS[table])
    pending: list[tuple[Row, Row]] = []
    for number, row in enumerate(rows):
        other = draw_row(rng, table, number)
        wrong = (*row[:width], *other[width:])
        match rng.randrange(4):
            case 0:
                yield wrong, "insert"
                pending.append((wrong, row))
            case 1:
                yield wrong, "insert"
                yield wrong, "delete"
                yield row, "insert"
            case _:
                yield row, "insert"
        if pending and rng.random() < 0.3:
            before, after = pending.pop(rng.randrange(len(pending)))
            yield before, "update_before"
            yield after, "update_after"
    for before, after in pending:
        yield before, "update_before"
        yield after, "update_after"


def table_of(table: str, rows: list[Row]) -> pa.Table:
    schema = SCHEMAS[table]
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def registered(env: rh.Environment, rng: Random, tables: Mapping[str, list[Row]]) -> None:
    """Register the tables as changelogs."""
    for name, rows in tables.items():
        changes = [*changes_to(rng, name, rows)]
        table = table_of(name, [row for row, _ in changes])
        table = table.append_column("op", pa.array([op for _, op in changes]))
        env.register(name, env.from_source(rh.collection(table), name=name).upserts(key=KEYS[name]))
