"""A value crosses every border unchanged, or an error names its column: alone and with other rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rheos.connectors.spark.spark_types import _PLAIN as SPARK_TYPES
from rheos.core.errors import InternalError, RheosError
from rheos.core.operators.map_batches import MapBatchesSpec
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import rows_values, shown_record
from rheos.core.protocol.types import _SIMPLE as ANNOTATED
from rheos.testing.connector_kit.column_types import COLUMNS
from tests.borders.borders import BORDERS, Border
from tests.borders.values import NAN, TYPES, plain, rows_of_type

SOURCES = Path(__file__).parents[2] / "src"

every_border = pytest.mark.parametrize("name", BORDERS)


def outcome(border: Border, rows: Batch) -> list[Any] | str:
    """Return the values after the border, or its error."""
    try:
        crossed = border(rows)
    except RheosError as error:
        return _of_user_data(error)
    assert crossed.num_rows == rows.num_rows
    return plain(crossed.column(0))


def _of_user_data(error: RheosError) -> str:
    assert not isinstance(error, InternalError)
    assert "'v" in str(error) or error.record is not None, f"it names no column and no record: {error}"
    return str(error)


def holds(name: str, rows: Batch) -> None:
    """Check that each row comes out unchanged or raises an error, whichever rows share its batch."""
    border, kind = BORDERS[name], rows.schema.field(0).type
    want = [documented(name, each) for each in plain(rows.column(0))]
    alone = [outcome(border, rows.slice(at, 1)) for at in range(rows.num_rows)]
    for found, wanted in zip(alone, want, strict=True):
        assert isinstance(found, str) or repr(found) == repr([wanted]), (
            f"{kind}: {wanted} became {found}"
        )
    refused = [isinstance(each, str) for each in alone]
    if any(refused):
        together = outcome(border, rows)
        assert isinstance(together, str), f"{kind}: refused alone, and together {together}"
    fine = [at for at, bad in enumerate(refused) if not bad]
    if fine:
        together = outcome(border, rows.take(pa.array(fine)))
        assert repr(together) == repr([want[at] for at in fine]), f"{kind}: in company"


def documented(name: str, value: Any) -> Any:
    """Return the value after the border according to the pages; by default it is unchanged."""
    if name == "format json" and value in (NAN, float("inf"), float("-inf")):
        return None
    if name == "a key" and isinstance(value, float) and value == 0:
        return 0.0
    return value


@every_border
def test_extreme_values_are_passed_unchanged_or_refused(name: str) -> None:
    for kind, (_, edges, _) in TYPES.items():
        holds(name, rows_of_type(kind, [*edges, None]))


@every_border
@settings(max_examples=12, phases=[Phase.generate], deadline=None)
@given(data=st.data())
def test_random_values_are_passed_unchanged_or_refused(name: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(TYPES)))
    _, edges, drawn = TYPES[kind]
    value = st.none() | st.sampled_from(edges) | drawn
    holds(name, rows_of_type(kind, data.draw(st.lists(value, min_size=1, max_size=6))))


def test_every_known_type_is_tested() -> None:
    known = {*ANNOTATED.values(), *(column.type for column in COLUMNS.values()), *SPARK_TYPES.values()}
    kinds = {make([]).type for make, _, _ in TYPES.values()}
    untried = {kind for kind in known - kinds if not pa.types.is_nested(kind)} - {pa.null()}
    assert not untried, "give these types extremes in values.py"


def test_every_form_of_map_batches_is_a_border() -> None:
    forms = get_args(get_type_hints(MapBatchesSpec)["form"])
    assert {f"map_batches, {form}" for form in forms} <= set(BORDERS)


def test_errors_show_rows_that_python_cannot_represent() -> None:
    """Check that an error about a row never fails because of the row: it must use `shown_rows`."""
    for kind, (_, edges, _) in TYPES.items():
        rows = rows_of_type(kind, [*edges, None])
        assert len(rows_values(rows)) == rows.num_rows
        assert all(shown_record(rows, row) for row in range(rows.num_rows))
    by_hand = [
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if re.search(r"slice\(.*\.to_pylist\(\)\[0\]", file.read_text())
    ]
    assert not by_hand, "use protocol/shown_rows.py"
