"""Input and result types of functions, derived from their annotations."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import pyarrow as pa
import pytest

from rheos.api.function_typing import DeclaredOutput, input_record, output_type
from rheos.core.callables import function_name
from rheos.core.errors import SchemaError
from tests.api.programs import Alert, Event

ALERT = pa.schema(
    [pa.field("user", pa.string(), nullable=False), pa.field("value", pa.int64(), nullable=False)]
)
COLUMNS = pa.schema([("user", pa.string()), ("value", pa.int32())])


def gives(fn: Any, *, many: bool = False) -> DeclaredOutput:
    return output_type(fn, None, method="map", many=many)


def test_an_annotation_in_quotes_may_name_a_local_class() -> None:
    @dataclass
    class Local:
        n: int

    def made(record: Any) -> "Local":
        return Local(1)

    def many(record: "Local") -> "Iterator[Local]":
        yield record

    assert gives(made).record is Local
    assert gives(many, many=True).record is Local
    assert input_record(many, pa.schema([("n", pa.int64())])) is Local


def test_none_is_dropped_from_an_iterable_result() -> None:
    def maybe(record: Any) -> Optional[list[Alert]]:  # noqa: UP045 -- both spellings are read
        return None

    def maybe_too(record: Any) -> list[Alert] | None:
        return None

    assert gives(maybe, many=True) == gives(maybe_too, many=True) == DeclaredOutput(ALERT, Alert)


def test_types_of_partial_functions_and_callable_objects_are_found() -> None:
    def scaled(factor: int, record: Alert) -> Alert:
        return Alert(record.user, record.value * factor)

    class Scaling:
        def __call__(self, record: Alert) -> Alert:
            return record

    for fn in (functools.partial(scaled, 2), Scaling()):
        assert gives(fn).record is Alert
        assert input_record(fn, COLUMNS) is Alert
    assert function_name(functools.partial(scaled, 2)) == "scaled"
    assert function_name(Scaling()) == "Scaling"


def test_functions_without_annotations_receive_named_rows() -> None:
    def anything(record: Any) -> Alert:
        return Alert(record.user, record.value)

    assert input_record(anything, COLUMNS) is None
    assert input_record(lambda row: row, COLUMNS) is None
    assert input_record(print, COLUMNS) is None


def test_a_field_accepts_columns_of_another_width() -> None:
    @dataclass
    class Floats:
        user: str
        value: float

    def takes(record: Floats) -> Alert:
        return Alert(record.user, int(record.value))

    assert input_record(takes, COLUMNS) is Floats
    assert (
        input_record(takes, pa.schema([("value", pa.float32()), ("user", pa.large_string())])) is Floats
    )


def test_fields_without_an_init_argument_need_no_column() -> None:
    @dataclass
    class Counted:
        user: str
        length: int = field(init=False, default=0)

    def takes(record: Counted) -> Alert:
        return Alert(record.user, record.length)

    assert input_record(takes, COLUMNS) is Counted


@pytest.mark.parametrize("annotation", [dict, dict[str, int], str, tuple[int, ...], list[Event]])
def test_records_are_neither_dicts_nor_tuples(annotation: Any) -> None:
    def takes(record: Any) -> Alert:
        return Alert("x", 1)

    takes.__annotations__["record"] = annotation
    with pytest.raises(SchemaError, match="which is not a type of record"):
        input_record(takes, COLUMNS)


def test_any_is_refused_as_a_result_type() -> None:
    def anything(record: Event) -> Any:
        return record

    def anythings(record: Event) -> Iterator[Any]:
        yield record

    with pytest.raises(SchemaError, match="has no return annotation"):
        gives(anything)
    with pytest.raises(SchemaError, match="does not declare the type of the records that it returns"):
        gives(anythings, many=True)


def test_a_field_without_a_column_type_is_named() -> None:
    @dataclass
    class Odd:
        thing: object

    def made(record: Any) -> Odd:
        return Odd(record)

    with pytest.raises(SchemaError, match="field 'thing' of Odd: object has no column type"):
        gives(made)
