"""An exception of a user's function has advice: columns of the batch, and the form of batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

import rheos as rh


@dataclass
class Sale:
    shop: str
    cents: int


SALES = [Sale("rom", 1), Sale("ulm", 2)]
PRICES = {"rom": 1}


def advice(function: Callable[[Any], Any], method: str = "map_batches", **options: Any) -> str:
    env = rh.Environment(1, runtime="simulated")
    sales = env.from_source(rh.collection(SALES))
    getattr(sales, method)(function, returns={"y": int}, **options).collect("out")
    with pytest.raises(rh.RheosError) as raised:
        env.execute("sales")
    assert str(raised.value).startswith(f"{__file__}:")
    return raised.value.hint or ""


@pytest.mark.parametrize(
    "function",
    [
        lambda frame: frame.assign(y=1),
        lambda frame: frame.groupby("shop"),
        lambda frame: frame.loc[0],
        lambda frame: frame["cents"].apply(abs),
        lambda frame: frame.iterrows(),
    ],
)
def test_the_hint_for_pandas_code_names_the_form(function: Callable[[Any], Any]) -> None:
    assert "this is a Polars " in advice(function)
    assert 'for pandas write .map_batches(..., form="pandas")' in advice(function)


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_the_hint_for_polars_code_names_the_form(form: str) -> None:
    if form == "pandas":
        pytest.importorskip("pandas")
    assert f'leave out form="{form}"' in advice(lambda frame: frame.with_columns(y=1), form=form)


def test_a_column_of_a_frame_is_an_item() -> None:
    assert (
        advice(lambda frame: frame.cents) == 'this is a Polars DataFrame: a column is written ["cents"]'
    )


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (lambda frame: frame["cnts"], "polars"),
        (lambda frame: frame.select("cnts"), "polars"),
        (lambda frame: frame.select(pl.col("cnts") + 1), "polars"),
        (lambda frame: frame["cnts"], "pandas"),
        (lambda frame: frame[["shop", "cnts"]], "pandas"),
        (lambda frame: frame.groupby("cnts"), "pandas"),
        (lambda batch: batch["cnts"], "arrow"),
        (lambda batch: batch.column("cnts"), "arrow"),
    ],
)
def test_a_missing_column_is_named_with_those_of_the_batch(
    function: Callable[[Any], Any], form: str
) -> None:
    if form == "pandas":
        pytest.importorskip("pandas")
    assert advice(function, form=form) == "did you mean 'cents'? the batch has shop, cents"


def test_a_dict_of_the_user_is_not_taken_for_a_batch() -> None:
    assert advice(lambda frame: PRICES["paris"]) == "correct the function"


def test_a_field_of_a_record_that_does_not_exist_is_named() -> None:
    def of_sale(sale: Sale) -> Any:
        return {"y": sale.cnts}  # type: ignore[attr-defined]

    assert "did you mean 'cents'? " in advice(of_sale, "map")
    assert advice(lambda row: {"y": row.cnts}, "map") == (
        "did you mean 'cents'? the record has shop, cents"
    )


def test_the_hint_for_boolean_conditions_names_the_operators() -> None:
    both = pl.col("cents") > 1
    assert "& (and)" in advice(lambda frame: frame.filter(both and both))
