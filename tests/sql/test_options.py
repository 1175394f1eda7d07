"""Options of WITH: every registered format with its own options, and types of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional

import pyarrow as pa
import pytest
from sqlglot import exp

import rheos as rh
from rheos.connectors.kafka.source import KafkaSource
from rheos.connectors.registration import ConnectorRegistration
from rheos.connectors.sql_options import WITHOUT_EFFECT, SqlOption, renamed
from rheos.formats.registration import FORMATS
from rheos.sql.catalog import DeclaredTable
from rheos.sql.connectors import with_options
from rheos.sql.dialect import parse
from rheos.sql.options import call_with_options, for_function
from rheos.sql.text import SqlText
from tests.formats.test_protobuf import SHOP

SCHEMAS = {
    "raw": pa.schema({"item": pa.binary()}),
    "protobuf": pa.schema({"kind": pa.string()}),
}
AVRO = '{"type": "record", "name": "Item", "fields": [{"name": "item", "type": "string"}]}'

FORMAT_CASES: Mapping[str, tuple[Mapping[str, str], Any]] = {
    "json": ({}, lambda: rh.formats.json()),
    "csv": ({"header": "false", "delimiter": ";"}, lambda: rh.formats.csv(header=False, delimiter=";")),
    "arrow": ({"rows-per-payload": "7"}, lambda: rh.formats.arrow(rows_per_payload=7)),
    "avro": ({"schema": AVRO}, lambda: rh.formats.avro(AVRO)),
    "protobuf": (
        {"message": "shop.Tagged", "descriptors": "{folder}/shop.desc"},
        lambda: rh.formats.protobuf("shop.Tagged", descriptors=SHOP),
    ),
    "text": ({}, lambda: rh.formats.text()),
    "raw": ({}, lambda: rh.formats.raw()),
    "debezium_json": ({"key": "item"}, lambda: rh.formats.debezium_json(key="item")),
    "debezium_avro_confluent": (
        {"registry": "http://localhost:1"},
        lambda: rh.formats.debezium_avro_confluent(registry="http://localhost:1"),
    ),
    "canal_json": ({}, lambda: rh.formats.canal_json()),
    "maxwell_json": ({}, lambda: rh.formats.maxwell_json()),
    "ogg_json": ({}, lambda: rh.formats.ogg_json()),
}


@pytest.mark.parametrize("name", FORMATS.built_in)
def test_every_registered_format_can_be_made_from_sql(name: str, tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(SHOP)
    options, made = FORMAT_CASES[name]
    own = "".join(
        f", '{name}.{option}' = '{value.replace('{folder}', str(tmp_path))}'"
        for option, value in options.items()
    )
    text = (
        "CREATE TABLE t (item STRING) WITH ('connector' = 'kafka', 'topic' = 't', "
        f"'brokers' = 'localhost:1', 'format' = '{name}'{own})"
    )
    statement = parse(SqlText(text))[0]
    schema = SCHEMAS.get(name, pa.schema({"item": pa.string()}))
    options_of_table = with_options(SqlText(text), statement, schema.names)
    source = options_of_table.source(
        DeclaredTable("t", schema, {}, None, (), options_of_table, SqlText(text))
    )
    assert isinstance(source, KafkaSource)
    assert source.decoding.format == made()


def strings(
    text: str = "",
    number: int = 0,
    share: float | None = None,
    flag: bool = False,
    names: Sequence[str] = (),
    either: str | Sequence[str] = (),
    word: Literal["a", "b"] = "a",
    older: Optional[int] = None,  # noqa: UP045
    path: bytes = b"",
    table: Mapping[str, int] | None = None,
    unknown=None,  # type: ignore[no-untyped-def]
    guessed=3,  # type: ignore[no-untyped-def]
) -> dict[str, Any]:
    return dict(locals())


VALUES = [
    ("text", "12", "12"),
    ("number", "-12", -12),
    ("share", "0.5", 0.5),
    ("flag", "TRUE", True),
    ("names", "a, b", ("a", "b")),
    ("either", "a,b", "a,b"),
    ("word", "b", "b"),
    ("older", "4", 4),
    ("unknown", "x", "x"),
    ("guessed", "5", 5),
]


def called(options: Mapping[str, str]) -> Any:
    nodes = {name: exp.Literal.string(value) for name, value in options.items()}
    at = exp.Literal.string("t")
    return call_with_options(SqlText("t"), strings, nodes, at, given={})


@pytest.mark.parametrize(("name", "text", "value"), VALUES)
def test_an_option_is_parsed_by_the_type_of_its_argument(name: str, text: str, value: object) -> None:
    assert called({name: text})[name] == value


def test_an_option_of_type_bytes_names_a_file(tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(b"\x00\x01")
    assert called({"path": str(tmp_path / "schema")})["path"] == b"\x00\x01"
    with pytest.raises(rh.ProgramError, match="cannot be read"):
        called({"path": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"number": "1.5"}, "'1.5' is not an integer"),
        ({"share": "half"}, "'half' is not a number"),
        ({"flag": "yes"}, "neither true nor false"),
        ({"table": "a"}, "this option cannot be set as a string"),
        ({"nothing": "a"}, "unknown option 'nothing'"),
    ],
)
def test_values_that_do_not_fit_are_errors(options: Mapping[str, str], error: str) -> None:
    with pytest.raises(rh.ProgramError, match=error):
        called(options)


OTHER = ConnectorRegistration(
    name="other",
    title="another system",
    module=__name__,
    source="strings",
    sink="written",
    sql_options={
        "kind": "word",
        "how": renamed("word", first_one="a", second_one="b"),
        "table.": SqlOption("table"),
        "buffers": WITHOUT_EFFECT,
        "text.size": SqlOption("csv.delimiter"),
    },
    sql_defaults={"csv.header": "false"},
)


def written(*, batch: int = 1, kind: str = "") -> None:
    """Stand for the sink of the connector."""


def options_of(what: str, **options: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    nodes: dict[str, exp.Expr] = {
        name.replace("__", "."): exp.Literal.string(value) for name, value in options.items()
    }
    found, several = for_function(SqlText("t"), OTHER, what, nodes)
    return {name: node.name for name, node in found.items()}, several


def test_options_of_other_systems_become_arguments() -> None:
    assert options_of("source", kind="b") == ({"word": "b"}, {})
    assert options_of("source", how="SECOND-ONE") == ({"word": "b"}, {})
    assert options_of("source", buffers="3") == ({}, {})
    assert options_of("source", table__a="1", table__b="2") == ({}, {"table": {"a": "1", "b": "2"}})
    assert options_of("source", format="csv", text__size=";") == (
        {"format": "csv", "csv.delimiter": ";", "csv.header": "false"},
        {},
    )


def test_an_option_of_another_function_has_no_effect() -> None:
    assert options_of("source", batch="3") == ({}, {})
    assert options_of("sink", batch="3", kind="b") == ({"batch": "3", "kind": "b"}, {})
    assert options_of("sink", bach="3") == ({"bach": "3"}, {}), "it is an unknown option"


def test_an_unknown_value_of_another_system_is_an_error() -> None:
    with pytest.raises(rh.SchemaError, match="unknown value 'third'") as caught:
        options_of("source", how="third")
    assert caught.value.hint == "the values of 'how' are first-one, second-one"
