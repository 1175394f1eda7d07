"""Names that examples in docstrings use without defining them: streams, record classes, functions.

An example has two to six lines, so it uses streams such as `events` that it does not make. If it needs
a Spark session, a server or a running job, a stand-in receives the call (`_stand_ins`).
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any
from unittest.mock import MagicMock, create_autospec

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing

FIELDS = {
    "Event": "user page country device item status:int n:int price:float millis:float ms:float kind "
    "shard:int rack day:date slow:bool at:datetime",
    "LogEvent": "user country status:int millis:float accessed_at:datetime",
    "Line": "text rack at:datetime",
    "Text": "id:int text",
    "Click": "id:int user item at:datetime",
    "View": "user page viewed_at:datetime",
    "Order": "id:int customer:int user item currency state op ordered_at:datetime",
    "Payment": "order_id:int cents:int paid_at:datetime",
    "Receipt": "order_id:int receipt:str",
    "Rate": "currency rate:float rated_at:datetime",
    "Visit": "id:int user user_id:int home at:datetime",
    "User": "name",
    "Customer": "id:int name op changed_at:datetime",
    "Rule": "name page",
    "Sale": "shop item price:float n:int country at:datetime",
    "Bid": "item auction:int user price:int n:int at:datetime",
    "Trade": "item price:float at:datetime",
    "Reading": "user alarm:int at:datetime",
    "Trip": "city km:float hour:int minutes:float departed_at:datetime",
    "Price": "item unit_price:float",
    "ScoredTrip": "city minutes:float prediction:float error:float",
    "Model": "version:int model:bytes",
    "Purchase": "user shop amount:float bought_at:datetime",
    "Label": "user shop fraud:bool labelled_at:datetime",
    **dict.fromkeys(
        [
            "Alert",
            "Alarm",
            "Word",
            "Counted",
            "Paid",
            "Report",
            "Best",
            "Enriched",
            "Scored",
            "SpreadOfTrades",
        ],
        "user n:int",
    ),
}
"""Fields of each record class; strings, unless a type follows. The first time is the event time."""

STREAMS = {
    **dict.fromkeys(["events", "counts", "changed"], "Event"),
    **dict.fromkeys(["clicks", "searches"], "Click"),
    **dict.fromkeys(["prices", "quotes", "bids", "numbers"], "Bid"),
    "lines": "Line",
    "texts": "Text",
    "views": "View",
    "orders": "Order",
    "payments": "Payment",
    "rates": "Rate",
    "sales": "Sale",
    "visits": "Visit",
    "rules": "Rule",
    "users": "Customer",
    "customers": "Customer",
    "rides": "Trip",
    "scored": "ScoredTrip",
    "errors": "ScoredTrip",
    "models": "Model",
    "purchases": "Purchase",
    "labels": "Label",
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TYPES = {each.__name__: each for each in (int, float, bool, bytes, date, datetime)}


def _stand_ins(records: dict[str, type]) -> dict[str, Any]:
    """Return what each function that an example does not really call returns."""
    rows = {name: rh.collection([], schema=records[name]) for name in ("Trip", "Order", "Event")}
    return {
        # These need Spark.
        "rh.dataframe": rows["Trip"],
        "rh.spark_stream": rows["Trip"],
        "rh.savepoint": MagicMock(),
        "rh.new_savepoint": MagicMock(),
        "rh.Environment.from_dataframe": MagicMock(),
        "rh.Environment.from_stream": MagicMock(),
        "rh.DataStream.to_dataframe": MagicMock(),
        # These need a server.
        "rh.postgres.changes": rows["Order"],
        "rh.mysql.changes": rows["Order"],
        "rh.mysql.tables": (),
        "rh.postgres.tables": (),
        "rh.delta.source": rows["Order"],
        "rh.delta.changes": rows["Order"],
        "rh.iceberg.source": rows["Order"],
        "rh.iceberg.changes": rows["Order"],
        "rh.duckdb.source": rows["Order"],
        "rh.duckdb.lookup": testing.MemoryLookup(["id"], [{"id": 1, "country": "uk"}]),
        "rh.lancedb.lookup": testing.MemoryLookup(["id"], [{"id": 1, "country": "uk"}]),
        "rh.lancedb.nearest": testing.MemoryLookup(["id"], [{"id": 1, "distance": 0.5}]),
        "rh.sql_database.source": rows["Order"],
        "rh.clickhouse.lookup": testing.MemoryLookup(["id"], [{"id": 1, "country": "uk"}]),
        "rh.mongodb.changes": rows["Order"],
        "rh.sql_database.lookup": testing.MemoryLookup(["id"], [{"id": 1, "country": "uk"}]),
        "rh.postgres.lookup": testing.MemoryLookup(["id"], [{"id": 1, "country": "uk"}]),
        # These need a job.
        "rh.Environment.execute": MagicMock(),
        "rh.Environment.execute_async": MagicMock(),
        "rh.fork": MagicMock(),
        "rh.migrate": MagicMock(),
        "rh.query": MagicMock(),
        "rh.why": MagicMock(),
        "rh.debug": MagicMock(),
        # These need a file.
        "rh.ml.Onnx.of_file": lambda features: features[:, 0],
        "rh.formats.protobuf": rh.formats.avro(
            """{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}"""
        ),
    }


def _records() -> dict[str, type]:
    made = {}
    for name, fields in FIELDS.items():
        pairs = (field.partition(":") for field in fields.split())
        typed = [(field, TYPES.get(kind, str)) for field, _, kind in pairs]
        made[name] = dataclasses.make_dataclass(name, typed)
    return made


def example_names(example: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names that an example uses, with a new environment, after replacing what it cannot
    call.

    A stand-in checks the arguments against the signature of the function.
    """
    records = _records()
    for path, result in _stand_ins(records).items():
        *parents, name = path.split(".")[1:]
        owner: Any = rh
        for parent in parents:
            owner = getattr(owner, parent)
        if re.search(rf"\.{name}\(", example):
            is_class_method = inspect.ismethod(getattr(owner, name))
            made = create_autospec(getattr(owner, name), return_value=result)
            monkeypatch.setattr(owner, name, staticmethod(made) if is_class_method else made)
    env = rh.Environment(1, runtime="simulated")
    names: dict[str, Any] = {
        "rh": rh,
        "rheos": rh,
        "testing": testing,
        "MemoryLookup": testing.MemoryLookup,
        "col": rh.col,
        "pl": pl,
        "pa": pa,
        "math": math,
        "datetime": datetime,
        "UTC": UTC,
        "Decimal": Decimal,
        "Annotated": Annotated,
        "Iterator": Iterator,
        "dataclass": dataclasses.dataclass,
        "__name__": "example",
        **{name: getattr(rh, name) for name in rh.__all__ if name[0].isupper()},
        "env": env,
        "spark": MagicMock(),
        "httpx": MagicMock(),
        "joblib": MagicMock(),
        "model": MagicMock(),
        "load": MagicMock(),
        "url": "redis://localhost:6379",
        "VIPS": {"ada"},
        "EIGHT_HOURS": 8 * 3_600_000,
        **records,
        **_functions(records),
    }
    for stream, record in STREAMS.items():
        times = [field.name for field in dataclasses.fields(records[record]) if field.type is datetime]
        watermark = rh.Watermark.monotonic(on=times[0]) if times else None
        names[stream] = env.from_source(
            rh.collection([], schema=records[record]), watermark, name=stream
        )
    for table in ("bids", "views") if "SELECT" in example else ():
        if f'register("{table}"' not in example:
            env.register(table, names[table])
    names |= {
        "source": rh.collection([], schema=records["Event"]),
        "live_trips": rh.collection([], schema=records["Trip"]),
        "history": rh.collection([], schema=records["Trip"]),
        "countries": pl.DataFrame({"code": ["uk"], "name": ["Britain"]}),
        "windows": names["events"].key_by("user").window(rh.Tumbling("1m")),
        "rising": rh.pattern.begin("low").next("high"),
        "example": testing.OperatorExample(
            lambda stream: stream.key_by("user").running(n=rh.agg.count()),
            pa.schema([("user", pa.string())]),
            [{"user": "ada"}],
        ),
    }
    for features, key in (("user_spend", "user"), ("shop_risk", "shop")):
        amounts = names["purchases"].select(key, "bought_at", **{f"of_{key}": "amount"})
        names[features] = rh.ml.features(features, amounts, key)
    return {**names, **_compared_features()}


def _compared_features() -> dict[str, Any]:
    """Return an answer of serving, its training row, and their comparison."""
    row = {"user": "ada", "total": 3, "user_spend_at": NOON, "asked_at": NOON}
    training = pa.Table.from_pylist([row])
    served = pa.Table.from_pylist([{**row, "user_spend_status": "fresh"}])
    compared = rh.ml.compare_features(served, training, name="user_spend", keys="user")
    return {"served": served, "training": training, "comparison": compared}


def _functions(records: dict[str, type]) -> dict[str, Any]:
    """Return functions and classes with the annotations that the examples rely on."""

    word, alert, bid = records["Word"], records["Alert"], records["Bid"]

    def typed(fn: Callable[..., Any], **annotations: Any) -> Any:
        fn.__annotations__ = annotations
        return fn

    def one(name: str, result: str = "Word") -> Any:
        return typed(lambda record: record, record=records[name], **{"return": records[result]})

    def many(name: str) -> Any:
        words = Iterator[word]  # type: ignore[valid-type]
        return typed(lambda record: [record], record=records[name], **{"return": words})

    class LinearRegression:
        def learn_one(self, x: Any, y: Any) -> None: ...

        def predict_one(self, x: Any) -> float:
            return 0.0

    class Validate(rh.KeyedProcessFunction):
        def process_element(self, record: Any, ctx: Any) -> Any: ...

    class Match(rh.KeyedCoProcessFunction):
        def process_element1(self, record: Any, ctx: Any) -> Any: ...

        def process_element2(self, record: Any, ctx: Any) -> Any: ...

    class Convert(rh.BroadcastProcessFunction):
        def process_element(self, record: Any, ctx: Any) -> Any: ...

        def process_broadcast_element(self, record: Any, ctx: Any) -> Any: ...

    class Alarms(rh.KeyedBroadcastProcessFunction):
        def process_element(self, record: Any, ctx: Any) -> Any: ...

        def process_broadcast_element(self, record: Any, ctx: Any) -> Any: ...

    class Spread(rh.AggregateFunction[int]):
        def create_accumulator(self) -> int:
            return 0

        def add(self, record: Any, accumulator: int) -> int:
            return accumulator

        def get_result(self, accumulator: int) -> Any: ...

    class WithTheWindow(rh.WindowFunction):
        def process(self, records: Any, ctx: Any) -> Any: ...

    alerts = Iterator[alert]  # type: ignore[valid-type]
    for cls in (Validate, Convert, Alarms):
        cls.process_element.__annotations__["return"] = alerts
    for method in (Match.process_element1, Match.process_element2, WithTheWindow.process):
        method.__annotations__["return"] = alerts
    Spread.get_result.__annotations__["return"] = records["Counted"]

    async def ask(record: Any) -> Any: ...

    def build(env: Any) -> Any:
        return (
            env.from_source(rh.collection([{"user": "ada"}] * 2))
            .key_by("user")
            .running(n=rh.agg.count())
        )

    return {
        "linear_model": type("linear_model", (), {"LinearRegression": LinearRegression}),
        "parse": one("Line", "Event"),
        "ask_the_service": one("Event"),
        "number_them": one("Event"),
        "of_click": one("Click"),
        "of_view": one("View"),
        "words_of_click": many("Click"),
        "words_of_view": many("View"),
        "larger": typed(lambda a, b: a, a=bid, b=bid, **{"return": bid}),
        "nearest_rack": lambda rack, subtasks: 0,
        "make_clicks": lambda block: {"user": ["ada"] * block.rows},
        "ask": typed(ask, record=records["Visit"], **{"return": records["Enriched"]}),
        "build": build,
        "Validate": Validate,
        "Match": Match,
        "Convert": Convert,
        "Flag": Convert,
        "Alarms": Alarms,
        "Spread": Spread,
        "WithTheWindow": WithTheWindow,
    }
