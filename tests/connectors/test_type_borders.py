"""The page shows how each type crosses each border. To write it:
python -m tests.connectors.test_type_borders; with `stores`, only the table of stores"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos import formats
from rheos.core.connectors.contract import Source
from rheos.core.errors import InputError
from rheos.core.formats.contract import Format
from rheos.core.protocol.ids import JobId
from rheos.formats.avro_schemas import avro_of
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark.session import get_session
from rheos.testing.servers import ClickhouseServer, MariadbServer, MongodbServer, PostgresServer
from tests.connectors.mysql.databases import new_database as new_mariadb
from tests.connectors.postgres.databases import Database, new_database
from tests.connectors.store_borders import (
    in_files,
    of_clickhouse,
    of_mongodb,
    of_sql_database,
)
from tests.connectors.type_borders import SAMPLES, Border, of_table, outcome, write
from tests.spark_versions import needs_spark

PAGE = Path(__file__).parents[2] / "docs" / "types.md"


# --- borders ----------------------------------------------------------------------------------------


def of_format(make: Callable[[pa.Schema], Format]) -> Border:
    """Return the border of a format: encode rows, and decode them with the same schema."""

    def border(rows: pa.Table) -> pa.Table:
        format = make(rows.schema)
        format.check_encodes(rows.schema)
        format.check_decodes(rows.schema)
        [batch] = rows.to_batches()
        decoded = format.decoder(rows.schema).decode(format.encoder(rows.schema).encode(batch))
        if decoded.bad:
            raise InputError(decoded.bad[0].error, hint="")
        return pa.Table.from_batches([decoded.rows])

    return border


def of_parquet(folder: Path) -> Source:
    file = next((folder / "t").glob("*.parquet"))
    return rh.files.source(folder / "t", schema=pq.read_schema(file))


def catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


_MICROSECONDS = "(extract(epoch FROM v) * 1000000)::bigint"
_OF_POSTGRES = {
    "boolean": (pa.bool_(), "v"),
    "smallint": (pa.int16(), "v"),
    "integer": (pa.int32(), "v"),
    "bigint": (pa.int64(), "v"),
    "real": (pa.float32(), "v"),
    "double precision": (pa.float64(), "v"),
    "text": (pa.string(), "v"),
    "bytea": (pa.binary(), "v"),
    "date": (pa.date32(), "v - DATE '1970-01-01'"),
    "time without time zone": (pa.time64("us"), _MICROSECONDS),
    "timestamp without time zone": (pa.timestamp("us"), _MICROSECONDS),
    "timestamp with time zone": (pa.timestamp("us", "UTC"), _MICROSECONDS),
    "interval": (pa.duration("us"), _MICROSECONDS),
}
"""Arrow type of each column type, and the expression that its values are read by: the client library
has no values for some of them."""


def of_postgres(database: Database) -> Border:
    def border(rows: pa.Table) -> pa.Table:
        database.run("DROP TABLE IF EXISTS t")
        write(rows, rh.postgres.sink("t", url=database.url, mode="append"))
        [(kind,)] = database.rows(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attname = 'v'"
        )
        numeric = re.fullmatch(r"numeric(?:\((\d+),(\d+)\))?", kind)
        if numeric is None:
            type, read = _OF_POSTGRES[kind]
        elif numeric[1] is None:
            type, read = pa.decimal128(20, 0), "v"
        else:
            digits, scale = int(numeric[1]), int(numeric[2])
            type = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale)
            read = "v"
        found = database.rows(f"SELECT n, {read} FROM t")
        return pa.table(
            {"n": [n for n, _ in found], "v": pa.array([value for _, value in found], type)}
        )

    return border


def of_dataframes(spark: Any) -> Border:
    """Return the border of Spark: a stream becomes a DataFrame, and the DataFrame a stream."""

    def border(rows: pa.Table) -> pa.Table:
        env = rh.Environment(1, runtime="batch")
        frame = env.from_source(rh.collection(rows)).to_dataframe()
        env = rh.Environment(1, runtime="batch")
        env.from_dataframe(frame).collect("rows")
        return env.execute("read").collected["rows"]

    return border


IN_PROCESS: dict[str, Border] = {
    "JSON": of_format(lambda schema: formats.json()),
    "CSV": of_format(lambda schema: formats.csv()),
    "Avro": of_format(lambda schema: formats.avro(avro_of(schema))),
    "Arrow": of_format(lambda schema: formats.arrow()),
    "Parquet": of_table(lambda folder: rh.files.sink(folder / "t"), of_parquet),
    "Delta": of_table(
        lambda folder: rh.delta.sink(folder / "t"), lambda folder: rh.delta.source(folder / "t")
    ),
    "Iceberg": of_table(
        lambda folder: rh.iceberg.sink("s.t", catalog=catalog(folder)),
        lambda folder: rh.iceberg.source("s.t", catalog=catalog(folder)),
    ),
}


# --- the page ---------------------------------------------------------------------------------------


def page_table(text: str, name: str) -> re.Match[str]:
    """Find a table of the page: that of "formats", or of "stores"."""
    mark = re.escape(f"<!-- {name}: made by tests/connectors/test_type_borders.py -->\n")
    found = re.search(f"(?<={mark}).*?(?=<!-- end)", text, re.S)
    assert found is not None, name
    return found


def page_cells(name: str, border: str) -> dict[str, str]:
    """Return the cells of a border on the page, by type."""
    made = page_table(PAGE.read_text(), name)[0].splitlines()
    head, _, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made]
    return {cells[0]: cells[head.index(border)] for cells in lines}


def check(table: str, name: str, border: Border) -> None:
    found = {kind: outcome(border, sample) for kind, sample in SAMPLES.items()}
    assert found == page_cells(table, name), "write it: python -m tests.connectors.test_type_borders"


@pytest.mark.parametrize("name", IN_PROCESS)
def test_the_page_has_what_becomes_of_each_type(name: str) -> None:
    check("formats", name, IN_PROCESS[name])


@pytest.mark.slow
def test_the_page_has_what_becomes_of_each_type_in_postgres(postgres_server: Any) -> None:
    check("formats", "PostgreSQL", of_postgres(new_database(postgres_server)))


@pytest.mark.slow
@pytest.mark.spark
@needs_spark("4.1", "times of day")
def test_the_page_has_what_becomes_of_each_type_in_dataframes(spark: Any) -> None:
    check("formats", "DataFrame", of_dataframes(spark))


@pytest.mark.parametrize("name", [pytest.param("DuckDB", marks=pytest.mark.slow), "SQLite"])
def test_the_page_has_what_becomes_of_each_type_in_files(name: str) -> None:
    check("stores", name, in_files()[name])


@pytest.mark.slow
def test_the_page_has_what_becomes_of_each_type_in_lancedb() -> None:
    pytest.importorskip("lancedb")
    check("stores", "LanceDB", in_files()["LanceDB"])


@pytest.mark.slow
def test_the_page_has_what_becomes_of_each_type_in_mariadb(mariadb_server: Any) -> None:
    check("stores", "MariaDB", of_sql_database(new_mariadb(mariadb_server)))


@pytest.mark.slow
def test_the_page_has_what_becomes_of_each_type_in_mongodb(mongodb_server: Any) -> None:
    check("stores", "MongoDB", of_mongodb(mongodb_server.url))


@pytest.mark.slow
def test_the_page_has_what_becomes_of_each_type_in_clickhouse(clickhouse_server: Any) -> None:
    check("stores", "ClickHouse", of_clickhouse(clickhouse_server.url))


def table(borders: Mapping[str, Border]) -> str:
    """Return a table of the page."""
    lines = [f"| type | {' | '.join(borders)} |", "|---" * (len(borders) + 1) + "|"]
    for kind, sample in SAMPLES.items():
        cells = [outcome(border, sample) for border in borders.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def format_table() -> str:
    session = get_session(JobConfig(job=JobId("types")), slots=2)
    with PostgresServer() as server:
        databases = {
            "PostgreSQL": of_postgres(new_database(server)),
            "DataFrame": of_dataframes(session),
        }
        return table({**IN_PROCESS, **databases})


def store_table() -> str:
    with MariadbServer() as mariadb, MongodbServer() as mongodb, ClickhouseServer() as clickhouse:
        servers = {
            "MariaDB": of_sql_database(new_mariadb(mariadb)),
            "MongoDB": of_mongodb(mongodb.url),
            "ClickHouse": of_clickhouse(clickhouse.url),
        }
        return table({**in_files(), **servers})


if __name__ == "__main__":
    for name, make in {"formats": format_table, "stores": store_table}.items():
        if name in (sys.argv[1:] or [name]):
            text, made = PAGE.read_text(), make()
            at = page_table(text, name)
            PAGE.write_text(text[: at.start()] + made + text[at.end() :])
