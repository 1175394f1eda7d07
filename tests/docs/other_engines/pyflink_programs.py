"""Runs the PyFlink programs of docs/coming-from.md in a local cluster: `python -m` this, with the file
of their blocks, by a Python that has apache-flink. Ends with an error where one finds other rows."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.docs.other_engines import rows as given

IMPORTS = """
import asyncio
import json
from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import *
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource)
from pyflink.datastream.state import *
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from pyflink.table import Schema, StreamTableEnvironment
"""


def found(stream: Any) -> set[given.Values]:
    """Run a job of this stream; return its rows without those that only advance the watermark."""
    with stream.execute_and_collect() as rows:
        return {row for row in map(tuple, rows) if "z" not in row}


def check(name: str, rows: set[given.Values], wanted: set[given.Values]) -> None:
    assert rows == wanted, f"{name}: {rows}, and not {wanted}"
    print(name, "finds the same", flush=True)


def main(programs: str) -> None:
    names: dict[str, Any] = {"__name__": "programs"}
    exec(IMPORTS, names)
    exec(compile(Path(programs).read_text(), programs, "exec"), names)
    types = names["Types"]
    text, big, whole, real = types.STRING(), types.LONG(), types.INT(), types.DOUBLE()
    env = names["StreamExecutionEnvironment"].get_execution_environment()
    env.set_python_executable(sys.executable)
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(1)

    def stream(columns: str, kinds: list[Any], rows: list[given.Values], wait_s: float = 0.0) -> Any:
        row = types.ROW_NAMED(columns.split(), kinds)

        def slowly(one: Any) -> Any:
            time.sleep(wait_s)
            return one

        made = env.from_collection([names["Row"](*values) for values in rows], row)
        return made.map(slowly, output_type=row)

    in_order = names["IN_ORDER"].with_timestamp_assigner(names["At"]())

    def timed(columns: str, kinds: list[Any], rows: list[given.Values]) -> Any:
        return stream(columns, kinds, rows).assign_timestamps_and_watermarks(in_order)

    lines = env.from_collection([line for (line,) in given.LINES], text)
    check("counts", found(names["counts"](lines)), given.COUNTS)
    # What is late depends on when the clock sends watermarks, so no row is.
    in_time = [click for click in given.CLICKS if click not in given.LATE]
    clicks = stream("page user at", [text, text, big], in_time)
    windows = names["per_minute"](clicks)
    names["late"](windows).print()
    check("per minute", found(windows), given.PER_MINUTE)
    visits = timed("page user at", [text, text, big], given.VISITS)
    check("sessions", found(names["sessions"](visits)), given.SESSIONS)
    tables = names["StreamTableEnvironment"].create(env)
    orders = timed("id at", [whole, big], given.ORDERS)
    payments = timed("order cents at", [whole, whole, big], given.PAYMENTS)
    with names["paid"](tables, orders, payments).execute().collect() as joined:
        check("paid", {tuple(row) for row in joined}, given.PAID)
    rates = stream("currency rate", [text, real], given.RATES)
    sales = stream("id currency amount", [whole, text, real], given.SALES, wait_s=5.0)
    check("in euros", found(names["in_euros"](sales, rates)), given.IN_EUROS)
    beats = timed("host at", [text, big], given.BEATS)
    check("silent", found(names["silent"](beats)), given.SILENT)
    events = stream("id at", [text, big], given.EVENTS)
    check("once", found(names["once"](events)), given.ONCE)
    ids = env.from_collection([number for (number,) in given.IDS], whole)
    check("named", found(names["named"](ids)), given.NAMED)
    transfers = stream("customer cents", [whole, whole], given.TRANSFERS)
    check("totals", found(names["totals"](transfers)), given.TOTALS)


main(sys.argv[1])
