"""What decoding and encoding payloads costs on one core, by format, beside other ways to read JSON.

usage: formats.py [ROUNDS]

Events are of about 200 bytes, in batches of 16,384. All cases take turns within a round, so that what
else the machine does meets all of them; a figure is the median of the rounds, in CPU time.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

# One thread, as in a slot; Polars reads it when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.json as pj

from rheos import formats
from rheos.formats.avro_schemas import avro_of

ROWS = 16_384
SCHEMA = pa.schema(
    [
        pa.field("user", pa.int64(), nullable=False),
        pa.field("page", pa.string(), nullable=False),
        pa.field("agent", pa.string(), nullable=False),
        pa.field("status", pa.int32(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("member", pa.bool_(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


class Event(msgspec.Struct):
    user: int
    page: str
    agent: str
    status: int
    seconds: float
    member: bool
    at: datetime


def events() -> pa.RecordBatch:
    rng = np.random.default_rng(1)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [
        {
            "user": int(rng.integers(0, 10**9)),
            "page": f"/catalogue/{rng.integers(0, 500)}/item/{rng.integers(0, 10**6)}",
            "agent": "Mozilla/5.0 (X11; Linux x86_64)",
            "status": int(rng.choice([200, 301, 404, 500])),
            "seconds": float(np.round(rng.gamma(2.0, 0.1), 6)),
            "member": bool(rng.integers(0, 2)),
            "at": noon + timedelta(microseconds=i * 1237),
        }
        for i in range(ROWS)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def decoded(format: formats.Format, payloads: pa.Array, schema: pa.Schema) -> Callable[[], object]:
    decoder = format.decoder(schema)

    def run() -> None:
        found = decoder.decode(payloads)
        assert found.rows.num_rows + len(found.bad) == ROWS

    return run


def others(payloads: pa.Array) -> dict[str, Callable[[], object]]:
    """Candidates for JSON, none of which looks at where a payload ends, or checks what it gives."""
    listed = payloads.to_pylist()
    event = msgspec.json.Decoder(Event)
    names = SCHEMA.names
    frame_schema = pl.DataFrame(SCHEMA.empty_table()).schema
    as_text = {**frame_schema, "at": pl.String}

    def arrow() -> object:
        data = b"\n".join(listed)
        return pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=SCHEMA),
        )

    def polars() -> object:
        frame = pl.read_ndjson(io.BytesIO(b"\n".join(listed)), schema=as_text)
        return frame.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC"))

    def polars_column() -> object:
        texts = pl.Series(payloads.cast(pa.string()))
        found = texts.str.json_decode(pl.Struct(as_text)).struct.unnest()
        return found.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC"))

    def structs() -> object:
        rows = [event.decode(payload) for payload in listed]
        columns = [[getattr(row, name) for row in rows] for name in names]
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )

    def plain() -> object:
        return pa.RecordBatch.from_pylist([json.loads(payload) for payload in listed])

    return {
        "pyarrow.json": arrow,
        "polars.read_ndjson": polars,
        "polars json_decode": polars_column,
        "msgspec to columns": structs,
        "json.loads": plain,
    }


def cases() -> dict[str, Callable[[], object]]:
    rows = events()
    payloads = formats.json().encoder(SCHEMA).encode(rows)
    one_bad = payloads.to_pylist()
    one_bad[ROWS // 3] = b'{"user": "me"}'
    some_bad = [b'{"user": "me"}' if i % 100 == 0 else each for i, each in enumerate(one_bad)]
    print(f"{payloads.nbytes / ROWS:.0f} bytes an event, in {ROWS} events")
    json_format = formats.json()
    raw, text = formats.raw(), formats.text()
    found = {f"JSON, {name}": run for name, run in others(payloads).items()}
    found["formats.json()"] = decoded(json_format, payloads, SCHEMA)
    found["formats.json(), one bad"] = decoded(json_format, pa.array(one_bad, pa.binary()), SCHEMA)
    found["formats.json(), 1 % bad"] = decoded(json_format, pa.array(some_bad, pa.binary()), SCHEMA)
    found["formats.json() encoding"] = lambda: json_format.encoder(SCHEMA).encode(rows)
    comma = formats.csv()
    records = comma.encoder(SCHEMA).encode(rows)
    found["formats.csv()"] = decoded(comma, records, SCHEMA)
    found["formats.csv() encoding"] = lambda: comma.encoder(SCHEMA).encode(rows)
    arrow = formats.arrow()
    streams = arrow.encoder(SCHEMA).encode(rows)
    found["formats.arrow()"] = decoded(arrow, streams, SCHEMA)
    found["formats.arrow() encoding"] = lambda: arrow.encoder(SCHEMA).encode(rows)
    avro = formats.avro(avro_of(SCHEMA))
    packed = avro.encoder(SCHEMA).encode(rows)
    found["formats.avro()"] = decoded(avro, packed, SCHEMA)
    found["formats.avro() encoding"] = lambda: avro.encoder(SCHEMA).encode(rows)
    found["formats.raw()"] = decoded(raw, payloads, raw.own_schema())
    found["formats.text()"] = decoded(text, payloads, text.own_schema())
    return found


def main(arguments: list[str]) -> None:
    rounds = int(arguments[0]) if arguments else 7
    running = cases()
    times: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, run in running.items():
            begin = time.process_time()
            run()
            times[name].append(time.process_time() - begin)
    print(f"{'case':<32}{'ms':>9}{'M events/s':>12}")
    for name, spent in times.items():
        middle = statistics.median(spent)
        print(f"{name:<32}{middle * 1000:>9.2f}{ROWS / middle / 1e6:>12.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
