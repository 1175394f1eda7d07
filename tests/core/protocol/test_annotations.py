"""Decimal types declared by annotations, in all places that read annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Optional

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.protocol.annotations import declared_decimal, hints_of, without_none
from rheos.core.protocol.types import arrow_type, is_immutable, rows_of, schema_of
from rheos.core.state.codec import ValueCodec

Money = Annotated[Decimal, rh.decimal(18, 2)]
MONEY = pa.decimal128(18, 2)


@dataclass
class Inner:
    amount: Money


@dataclass
class Line:
    bare: Decimal
    price: Money
    maybe: Money | None
    within: Annotated[Decimal | None, rh.decimal(9, 3)]
    old: Optional[Money]  # noqa: UP045
    many: list[Money]
    named: dict[str, Money]
    nested: Inner
    noted: Annotated[str, "what others read"]
    counted: list[Annotated[int, "what others read"]]


def test_fields_have_the_declared_types() -> None:
    assert {field.name: field.type for field in schema_of(Line)} == {
        "bare": pa.decimal128(38, 18),
        "price": MONEY,
        "maybe": MONEY,
        "within": pa.decimal128(9, 3),
        "old": MONEY,
        "many": pa.list_(MONEY),
        "named": pa.map_(pa.string(), MONEY),
        "nested": pa.struct([pa.field("amount", MONEY, nullable=False)]),
        "noted": pa.string(),
        "counted": pa.list_(pa.int64()),
    }
    assert [field.name for field in schema_of(Line) if field.nullable] == ["maybe", "within", "old"]


def test_records_are_converted_back() -> None:
    one = Decimal("1.50")
    line = Line(one, one, None, one, one, [one], {"a": one}, Inner(one), "x", [1])
    env = rh.Environment(parallelism=1, runtime="simulated")

    def same(record: Line) -> Line:
        assert isinstance(record.nested, Inner)
        return record

    env.from_source(rh.collection([line])).map(same).collect("out")
    table = env.execute("same").collected["out"].combine_chunks()
    assert table.schema.field("price").type == MONEY
    seen = rows_of(table.to_batches()[0], Line)
    assert seen == [line]


@pytest.mark.parametrize("annotation", [Money, Money | None, Annotated[Decimal | None, MONEY]])
def test_declarations_within_other_types_are_found(annotation: Any) -> None:
    assert declared_decimal(annotation) == MONEY
    assert without_none(annotation)[0] is Decimal
    assert arrow_type(annotation) == MONEY
    assert is_immutable(annotation)


@pytest.mark.parametrize("digits", [(0, 0), (39, 2), (2, 3), (5, -1), (2.0, 1), (True, 0)])
def test_impossible_decimal_types_are_refused(digits: Any) -> None:
    with pytest.raises(rh.SchemaError, match="\\) is not a valid decimal type"):
        rh.decimal(*digits)


def test_other_types_are_not_declared_like_this() -> None:
    with pytest.raises(rh.SchemaError, match="declares decimal128"):
        arrow_type(Annotated[int, rh.decimal(3, 1)])
    with pytest.raises(rh.SchemaError, match="declares int32"):
        arrow_type(Annotated[int, pa.int32()])


def total(price: Money) -> Annotated[Decimal, rh.decimal(20, 3)]:
    return price + Decimal("0.005")


def parts(price: Money) -> Iterator[Annotated[Decimal, rh.decimal(20, 1)]]:
    yield Decimal(1)


def test_annotations_of_functions_are_read() -> None:
    assert hints_of(total)["return"] == Annotated[Decimal, rh.decimal(20, 3)]
    env = rh.Environment(parallelism=1, runtime="simulated")
    rows = pa.table({"price": pa.array([Decimal("1.50")], MONEY)})
    env.register("lines", env.from_source(rh.collection(rows)))
    env.register_function("total", total)
    env.register_function("parts", parts)
    env.sql("SELECT total(price) AS t FROM lines").collect("one")
    env.sql("SELECT p FROM lines, LATERAL TABLE(parts(price)) AS f(p)").collect("many")
    found = env.execute("functions").collected
    assert found["one"].schema.field("t").type == pa.decimal128(20, 3)
    assert found["one"].to_pylist() == [{"t": Decimal("1.505")}]
    assert found["many"].schema.field("p").type == pa.decimal128(20, 1)


@pytest.mark.parametrize("value", ["1.005", "1e17", "NaN", "Infinity", "-10000000000000000"])
def test_values_that_do_not_fit_name_record_and_field(value: str) -> None:
    env = rh.Environment(parallelism=1, runtime="simulated")
    numbers = env.from_source(rh.collection([{"n": 1}]))

    def make(row: Any) -> Inner:
        return Inner(Decimal(value))

    numbers.map(make).collect("out")
    with pytest.raises(rh.UserFunctionError, match=r"'amount' should be decimal128\(18, 2\)") as error:
        env.execute("wrong")
    assert "n=1" in str(error.value) or "'n': 1" in str(error.value)


@pytest.mark.parametrize("declared", [Money, Money | None])
def test_state_holds_what_fits(declared: Any) -> None:
    codec = ValueCodec("total", declared)
    assert codec.fit(Decimal("1.5")) == Decimal("1.5")
    assert codec.fit(3) == Decimal(3)
    assert codec.decode(codec.encode([Decimal("1.50")], [1])[0]) == Decimal("1.50")  # type: ignore[list-item]
    for wrong in (Decimal("1.005"), Decimal("1e17"), Decimal("NaN"), 1.5, "1.5"):
        with pytest.raises(rh.StateAccessError, match=r"decimal128\(18, 2\)"):
            codec.fit(wrong)


@pytest.mark.parametrize("declared", [Inner, list[Money], dict[str, Money], Inner | None])
def test_state_with_decimals_inside_is_checked_when_it_is_stored(declared: Any) -> None:
    codec = ValueCodec("total", declared)
    amount = Decimal("1.005")
    wrong = {list: [amount], dict: {"a": amount}}.get(
        getattr(declared, "__origin__", None), Inner(amount)
    )
    with pytest.raises(rh.StateAccessError, match=r"decimal128\(18, 2\)"):
        codec.encode([wrong], [1])  # type: ignore[list-item]
