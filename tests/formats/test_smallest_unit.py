"""For each format, what a defect damages: the smallest unit that the pages name, and nothing else. Each
format has an answer for each kind of defect: a payload with it, or why it cannot have it. A new format
or kind of defect needs its answers here.

Each format answers for each kind of defect: a payload that has it, or why it cannot have it. A new
format, and a new kind of defect, need their answers here.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from rheos import formats
from rheos.connectors import files
from rheos.connectors.files import lines
from rheos.core.formats import contract
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.formats.contract import Format
from rheos.formats.registration import FORMATS
from tests.connectors.ports import Probe, assert_resumes_everywhere, read_all
from tests.formats.messages import descriptors
from tests.formats.test_change_formats import OF_CHANGES
from tests.formats.test_every_format import decode

ROWS = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())])
_TEXT = pa.schema([pa.field("value", pa.string())])
_BYTES = pa.schema([pa.field("value", pa.binary())])


@dataclass(frozen=True)
class Case:
    format: Format
    good: bytes
    defects: Mapping[str, bytes | str]
    """By kind: a payload, or why there is none."""
    schema: pa.Schema = field(default=ROWS)


NO_SYNTAX = "any bytes are one"
NO_TYPES = "it has one type"
KINDS = (
    "is cut",
    "goes on behind its end",
    "has another type",
    "lacks a value",
    "is no UTF-8",
    "is empty",
    "is of nothing that is known",
)


def _avro(**given: Any) -> bytes:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": ["null", "long"]}, {"name": "s", "type": ["null", "bytes"]}],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, given)
    return out.getvalue()


_AVRO = """{"type": "record", "name": "R", "fields": [
    {"name": "n", "type": ["null", "long"]}, {"name": "s", "type": ["null", "string"]}]}"""


def _arrow(**columns: Any) -> bytes:
    return table_bytes(pa.record_batch(columns))


_INVALID_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
_ARROW = _arrow(n=pa.array([7]), s=pa.array(["x"]))

CASES = {
    "avro": Case(
        formats.avro(_AVRO),
        _avro(n=7, s=b"x"),
        {
            "is cut": _avro(n=7, s=b"x")[:-1],
            "goes on behind its end": _avro(n=7, s=b"x") + b"\0",
            "has another type": b"\x04" + _avro(n=7, s=b"x")[1:],
            "lacks a value": _avro(n=None, s=b"x"),
            "is no UTF-8": _avro(n=7, s=b"\xff"),
            "is empty": b"",
            "is of nothing that is known": b"\xff" * 30,
        },
    ),
    "arrow": Case(
        formats.arrow(rows_per_payload=1),
        _ARROW,
        {
            "is cut": _ARROW[:-20],
            "goes on behind its end": _ARROW + b"\0" * 8,
            "has another type": _arrow(n=pa.array(["7"]), s=pa.array(["x"])),
            "lacks a value": _arrow(n=pa.array([None], pa.int64()), s=pa.array(["x"])),
            "is no UTF-8": _arrow(n=pa.array([7]), s=_INVALID_TEXT),
            "is empty": b"",
            "is of nothing that is known": b"\xff" * 30,
        },
    ),
    "csv": Case(
        formats.csv(),
        b"7,x",
        {
            "is cut": b'7,"x',
            "goes on behind its end": b"7,x,y",
            "has another type": b"seven,x",
            "lacks a value": b",x",
            "is no UTF-8": b"7,\xff",
            "is empty": b"",
            "is of nothing that is known": b"\xff\0\xff",
        },
    ),
    "json": Case(
        formats.json(),
        b'{"n": 7, "s": "x"}',
        {
            "is cut": b'{"n": 7, "s": "x"',
            "goes on behind its end": b'{"n": 7, "s": "x"} {"n": 8}',
            "has another type": b'{"n": "7", "s": "x"}',
            "lacks a value": b'{"s": "x"}',
            "is no UTF-8": b'{"n": 7, "s": "\xff"}',
            "is empty": b"",
            "is of nothing that is known": b"\xff\0\xff",
        },
    ),
    "protobuf": Case(
        formats.protobuf("shop.Order", descriptors=descriptors()),
        b"",
        {
            "is cut": b"\x08",
            "goes on behind its end": b"\0",
            "has another type": "what another type wrote is a field that is not known",
            "lacks a value": "what is missing has its default",
            "is no UTF-8": b"\x3a\x01\xff",
            "is empty": "an empty message has the defaults",
            "is of nothing that is known": b"\xff" * 30,
        },
        pa.schema([pa.field("a_int64", pa.int64(), nullable=False)]),
    ),
    "raw": Case(formats.raw(), b"x", dict.fromkeys(KINDS, NO_SYNTAX), _BYTES),
    "text": Case(
        formats.text(),
        b"x",
        {
            **dict.fromkeys(KINDS, NO_SYNTAX),
            "has another type": NO_TYPES,
            "is cut": "\u20ac".encode()[:-1],
            "is no UTF-8": b"x\xff",
            "is of nothing that is known": b"\xff\0\xff",
        },
        _TEXT,
    ),
}
SEEN = [
    pytest.param(case, kind, payload, id=f"{name} {kind}")
    for name, case in CASES.items()
    for kind, payload in case.defects.items()
    if isinstance(payload, bytes)
]
IN_LINES = [each for each in SEEN if each.values[0].format.in_lines is not None]


def test_every_format_has_an_answer_for_each_kind_of_defect() -> None:
    made = {*FORMATS.built_in} - {*OF_CHANGES}
    assert made == set(CASES)
    for name, case in CASES.items():
        assert set(case.defects) == set(KINDS), name


@pytest.mark.parametrize(("case", "kind", "bad"), SEEN)
@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_a_defect_in_a_payload_damages_only_that_payload(
    case: Case, kind: str, bad: bytes, size: int
) -> None:
    """Wherever it lies, with two of them next to each other, and however they are cut into calls."""
    places = {0, 17, 18, 49}
    payloads = [bad if at in places else case.good for at in range(50)]
    found, rows = [], 0
    decoder = case.format.decoder(case.schema)
    for begin in range(0, 50, size):
        decoded = decode(decoder, *payloads[begin : begin + size])
        found += [(begin + each.at, each.payload) for each in decoded.bad]
        rows += decoded.rows.num_rows
        assert all(each.error and len(each.error) < 500 for each in decoded.bad)
    assert found == [(at, bad) for at in sorted(places)]
    assert rows == 50 - len(places)


@pytest.mark.parametrize("name", CASES)
def test_a_payload_that_is_too_long_damages_no_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.setattr(contract, "MAX_PAYLOAD_BYTES", len(case.good))
    decoded = decode(case.format.decoder(case.schema), case.good, case.good + b"x", case.good)
    assert [each.at for each in decoded.bad] == [1]
    assert decoded.rows.num_rows == 2


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("case", "kind", "bad"), IN_LINES)
@pytest.mark.parametrize("chunk_bytes", [5, 64, 1 << 20])
def test_a_defect_in_a_file_of_lines_damages_only_that_line(
    case: Case,
    kind: str,
    bad: bytes,
    chunk_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not bad:
        pytest.skip("a line without any text is no record")
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
    places = {0, 7, 8, 19}
    listed = [bad if at in places else case.good for at in range(20)]
    lie = case.format.in_lines
    assert lie is not None
    header = [",".join(case.schema.names).encode()] if lie.header else []
    path = tmp_path / "rows"
    path.write_bytes(b"\n".join([*header, *listed]) + b"\n")
    source = files.source(path, schema=case.schema, format=case.format, on_error="skip")
    probe = Probe()
    assert len(read_all(source, probe)) == 20 - len(places)
    assert [row["line"] for row in probe.rejected] == [at + 1 + len(header) for at in sorted(places)]
    assert [row["payload"] for row in probe.rejected] == [bad] * len(places)
    assert probe.counts == {"skipped": len(places)}
    assert_resumes_everywhere(source, source.splits()[0])


def test_a_line_that_is_too_long_damages_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 16)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 64)
    for name in ("json", "csv", "text"):
        case = CASES[name]
        lie = case.format.in_lines
        assert lie is not None
        header = [",".join(case.schema.names).encode()] if lie.header else []
        path = tmp_path / name
        for last in ([case.good], []):
            path.write_bytes(b"\n".join([*header, case.good, b"y" * 500, *last]) + b"\n")
            source = files.source(path, schema=case.schema, format=case.format, on_error="skip")
            probe = Probe()
            assert len(read_all(source, probe)) == 1 + len(last), name
            assert [row["line"] for row in probe.rejected] == [2 + len(header)]
            assert probe.counts == {"skipped": 1}
            assert_resumes_everywhere(source, source.splits()[0])
