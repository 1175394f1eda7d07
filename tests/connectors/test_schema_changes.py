"""The policies for altered tables: which change is followed, ignored or an error, for rows from before
and after the program's start."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos.connectors.database_tables import (
    DatabaseTable,
    TableSelection,
    check_patterns,
    selected_tables,
)
from rheos.connectors.mysql.logged_statements import created_table
from rheos.connectors.schema_changes import (
    Fit,
    LoggedField,
    OnSchemaChange,
    ReadField,
    SchemaChange,
    SchemaPolicy,
    fit_of,
)
from rheos.core.errors import ConfigurationError, InputError, ProgramError

FIELDS = (ReadField("id", "int", True), ReadField("v", "text", False))
ID, V, W = LoggedField("id", "int", Fit.SAME), LoggedField("v", "text", Fit.SAME), Fit.SAME
STOP, ERROR = "stop", "error"
Result = list[int | None] | str


@pytest.mark.parametrize(
    ("logged", "fail", "ignore", "follow", "old"),
    [
        ((ID, V), [0, 1], [0, 1], [0, 1], [0, 1]),
        ((V, ID), [1, 0], [1, 0], [1, 0], [1, 0]),
        ((ID, LoggedField("n", "int", W), V), ERROR, [0, 2], STOP, [0, 2]),
        ((ID,), ERROR, [0, None], [0, None], [0, None]),
        ((ID, LoggedField("renamed", "text", W)), ERROR, [0, None], STOP, [0, None]),
        ((ID, LoggedField("v", "varchar", Fit.ALL)), [0, 1], [0, 1], [0, 1], [0, 1]),
        ((ID, LoggedField("v", "bigint", Fit.SOME)), ERROR, [0, 1], STOP, [0, 1]),
        ((ID, LoggedField("v", "blob", Fit.NONE)), ERROR, ERROR, STOP, ERROR),
        ((V,), ERROR, ERROR, ERROR, ERROR),
    ],
)
def test_each_policy_decides_about_each_change(
    logged: tuple[LoggedField, ...], fail: Result, ignore: Result, follow: Result, old: Result
) -> None:
    cases: list[tuple[OnSchemaChange, bool, Result]] = [
        *(("fail", False, fail), ("ignore", False, ignore), ("follow", False, follow)),
        *(("fail", True, old), ("ignore", True, old)),
    ]
    for policy, is_old, expected in cases:
        policies = SchemaPolicy(policy, "shop.t", FIELDS, ("id", "v"))
        if expected == ERROR:
            with pytest.raises(InputError, match=r"shop\.t was altered .* before log:7"):
                policies.places(logged, "log:7", is_old=is_old)
            continue
        found = policies.places(logged, "log:7", is_old=is_old)
        assert ("stop" if isinstance(found, SchemaChange) else found) == expected, (policy, is_old)


def test_columns_that_were_not_selected_are_left_out() -> None:
    for policy in ("fail", "ignore", "follow"):
        selects = SchemaPolicy(policy, "t", FIELDS, None)  # type: ignore[arg-type]
        assert selects.places((LoggedField("n", "int", W), ID, V), "", is_old=False) == [1, 2]


def test_messages_name_the_column_its_types_and_the_place() -> None:
    policy = SchemaPolicy("follow", "shop.t", FIELDS, ("id", "v"))
    found = policy.places((ID, LoggedField("v", "bigint", Fit.SOME)), "log:7", is_old=False)
    assert found == SchemaChange(
        "the table shop.t was altered before log:7: the column 'v' has another type: text became bigint"
    )


@pytest.mark.parametrize(
    ("logged", "before", "type", "fit"),
    [
        (pa.int64(), pa.int32(), pa.int32(), Fit.SOME),
        (pa.int64(), pa.int32(), pa.int64(), Fit.ALL),
        (pa.int64(), pa.int32(), pa.string(), Fit.ALL),
        (pa.string(), pa.int32(), pa.string(), Fit.ALL),
        (pa.uint32(), pa.int32(), pa.int64(), Fit.ALL),
        (pa.uint64(), pa.int32(), pa.int64(), Fit.SOME),
        (pa.int8(), pa.bool_(), pa.bool_(), Fit.NONE),
        (pa.binary(), pa.string(), pa.string(), Fit.NONE),
        (pa.decimal128(9, 2), pa.int32(), pa.int32(), Fit.SOME),
        (pa.int32(), pa.int32(), pa.decimal128(12, 2), Fit.ALL),
        (pa.int64(), pa.int32(), pa.float64(), Fit.SOME),
        (pa.decimal128(12, 2), pa.decimal128(9, 2), pa.decimal128(9, 2), Fit.SOME),
    ],
)
def test_a_type_fits_if_it_is_not_wider(
    logged: pa.DataType, before: pa.DataType, type: pa.DataType, fit: Fit
) -> None:
    assert fit_of(logged, before, type) is fit


def test_tables_of_a_database_are_selected_by_patterns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    keys = {"orders": ["id"], "lines": ["order_id", "line"], "log": [], "tmp_orders": ["id"]}
    chosen = TableSelection(("*",), ("tmp_*",))
    lines, orders = selected_tables("shop", keys, chosen)
    assert lines == DatabaseTable("lines", ("order_id", "line"), chosen)
    assert (orders.name, orders.qualified) == ("orders", "orders")
    assert selected_tables("x", keys, chosen, "sales")[1].qualified == "sales.orders"
    assert "left out, because they have no primary key: log" in caplog.text
    for include in (("log",), ("X*",)):
        with pytest.raises(ConfigurationError, match="no table of shop matches"):
            selected_tables("shop", keys, TableSelection(include))
    with pytest.raises(ProgramError, match=r"include='orders' is not a list of patterns"):
        check_patterns(include="orders", exclude=())


@pytest.mark.parametrize(
    ("sql", "created"),
    [
        ("CREATE TABLE a (id int)", ("shop", "a")),
        ("/* by hand */ create table if not exists `my``t` LIKE b", ("shop", "my`t")),
        ("CREATE TABLE other.`a`(id int)", ("other", "a")),
        ("CREATE TEMPORARY TABLE a (id int)", None),
        ("ALTER TABLE a ADD b int", None),
    ],
)
def test_a_statement_that_creates_a_table_is_recognised(
    sql: str, created: tuple[str, str] | None
) -> None:
    assert created_table(sql, "shop") == created
