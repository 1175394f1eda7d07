"""Files of lines in any format: CSV, text, raw, compressed or not, read and written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rheos import formats
from rheos.connectors import files
from rheos.connectors.files import lines
from rheos.connectors.files.listing import FileToRead, list_files
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import Probe, assert_resumes_everywhere, batch_of, read_all, sink_context

SCHEMA = pa.schema([pa.field("user", pa.int64(), nullable=False), pa.field("name", pa.string())])


def compressed(data: bytes, end: str) -> bytes:
    if end == ".gz":
        return gzip.compress(data)
    return pa.Codec("zstd").compress(data, asbytes=True) if end == ".zst" else data


def write(path: Path, text: str) -> str:
    path.write_bytes(compressed(text.encode(), path.suffix))
    return str(path)


@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
def test_a_csv_file_is_read_by_its_header(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 40)
    records = ['name,age,"user"'] + [f'"n, {i}\n""x""",{i},{i}' for i in range(12)] + [",1,12"]
    path = write(tmp_path / f"a.csv{end}", "\r\n".join(records[:3]) + "\n" + "\n".join(records[3:]))
    source = files.source(path, schema=SCHEMA)
    named = [{"user": i, "name": f'n, {i}\n"x"'} for i in range(12)]
    assert read_all(source) == [*named, {"user": 12, "name": None}]
    assert_resumes_everywhere(source, source.splits()[0])


@pytest.mark.parametrize("end", ["", ".zst"])
def test_a_bad_record_is_reported_with_its_line(tmp_path: Path, end: str) -> None:
    text = 'user,name\n1,"two\nlines"\n\nme,x\n3,y\n4\n5,"open\n6,z\n'
    path = write(tmp_path / f"a.csv{end}", text)
    with pytest.raises(InputError) as caught:
        read_all(files.source(path, schema=SCHEMA))
    assert caught.value.what == f"{path}:5: column 'user' must be int64, but is 'me'"
    assert caught.value.record == "me,x"
    probe = Probe()
    source = files.source(path, schema=SCHEMA, on_error="skip")
    assert [row["user"] for row in read_all(source, probe)] == [1, 3, 6]
    assert [(row["line"], row["payload"], row["error"]) for row in probe.rejected] == [
        (5, b"me,x", "column 'user' must be int64, but is 'me'"),
        (7, b"4", "it has 1 fields, but 2 are expected"),
        (
            8,
            b'5,"open',
            "it is not a single record: check for a missing quote or an extra line end",
        ),
    ]
    assert_resumes_everywhere(source, source.splits()[0])


def test_a_csv_file_without_header_has_the_columns_of_the_schema(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", '1;x\n2;\n3;""\n')
    plain = formats.csv(header=False, delimiter=";")
    source = files.source(path, schema=SCHEMA, format=plain)
    assert [row["name"] for row in read_all(source)] == ["x", None, ""]


def test_a_missing_column_in_a_header_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,nom\n1,x\n")
    with pytest.raises(InputError, match=r"a\.csv:1: the header has no column 'name'") as caught:
        read_all(files.source(path, schema=SCHEMA))
    assert caught.value.hint == "correct the schema; the file has user, nom"
    path = write(tmp_path / "a.csv", "user,name,user\n1,x,2\n")
    with pytest.raises(InputError, match="contains a column name twice"):
        read_all(files.source(path, schema=SCHEMA))


@pytest.mark.parametrize("text", ["", "user,name", "user,name\n", "\ufeffuser,name\n", "\ufeff"])
def test_a_csv_file_without_records_has_no_rows(tmp_path: Path, text: str) -> None:
    assert read_all(files.source(write(tmp_path / "a.csv", text), schema=SCHEMA)) == []


def test_an_unclosed_quote_damages_only_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 16)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 32)
    path = write(tmp_path / "a.csv", 'user,name\n1,x\n2,"y\n' + "3,z\n" * 20)
    with pytest.raises(
        InputError, match=r"a\.csv:3: it is not a single record: check for a missing quote"
    ):
        read_all(files.source(path, schema=SCHEMA))
    probe = Probe()
    source = files.source(path, schema=SCHEMA, on_error="skip")
    assert [row["user"] for row in read_all(source, probe)] == [1, *[3] * 20]
    assert [row["line"] for row in probe.rejected] == [3]
    assert_resumes_everywhere(source, source.splits()[0])


@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
def test_text_is_read_line_by_line(tmp_path: Path, end: str) -> None:
    path = write(tmp_path / f"words{end}", "\ufeffone\n\n  two \r\nthree")
    source = files.source(path, format="text")
    assert [row["value"] for row in read_all(source)] == ["one", "", "  two ", "three"]
    assert_resumes_everywhere(source, source.splits()[0])
    raw = files.source(path, format=formats.raw(), schema=pa.schema([("line", pa.binary())]))
    assert [row["line"] for row in read_all(raw)] == [b"one", b"", b"  two ", b"three"]


def test_an_explicit_format_overrules_the_extension(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(compressed(b"user,name\n1,x\n", ".zst"))
    source = files.source(tmp_path / "a.csv.gz", schema=SCHEMA, compression="zstd")
    assert read_all(source) == [{"user": 1, "name": "x"}]
    with pytest.raises(InputError, match="cannot be read after line 0"):
        read_all(files.source(tmp_path / "a.csv.gz", schema=SCHEMA))


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_a_truncated_file_is_an_error(tmp_path: Path, end: str) -> None:
    text = "".join(f"{i},{i * 7919}\n" for i in range(5000))
    path = tmp_path / f"a.csv{end}"
    whole = compressed(f"user,name\n{text}".encode(), end)
    path.write_bytes(whole[: len(whole) // 2])
    source = files.source(path, schema=SCHEMA)
    with pytest.raises(InputError, match="cannot be read after line"):
        read_all(source)
    split = FileToRead(str(path), "csv", codec="gzip" if end == ".gz" else "zstd")
    assert list_files([str(path)], None) == [split]
    path.write_bytes(whole)
    reader = source.open(source.splits()[0], None, Probe().context())
    reader.poll(4000)
    position = reader.position()
    path.write_bytes(compressed(b"user,name\n1,x\n", end))
    with pytest.raises(InputError, match="it is shorter than when it was first read"):
        source.open(source.splits()[0], position, Probe().context()).poll(1)


def test_a_file_in_a_checkpoint_of_0_1_0_is_resumed() -> None:
    import msgspec

    stored = msgspec.msgpack.encode({"path": "/a.jsonl.gz", "format": "jsonl", "gzip": True})
    assert msgspec.msgpack.decode(stored, type=FileToRead).compression == "gzip"


def test_formats_that_have_no_lines_are_refused_at_their_line(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="the format csv does not define the columns of its rows"):
        files.source("x", format="csv")
    with pytest.raises(SchemaError, match="needs a schema"):
        files.source("x")
    with pytest.raises(
        SchemaError, match="column 'l' of type list<item: int64> cannot be written as CSV"
    ):
        files.source("x.csv", schema=pa.schema([("l", pa.list_(pa.int64()))]))
    with pytest.raises(ProgramError, match="the format arrow cannot be used in files of lines"):
        files.source("x", schema=SCHEMA, format=formats.arrow())
    with pytest.raises(ProgramError, match="compression='rar' is not known"):
        files.source("x", schema=SCHEMA, compression="rar")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="delimiter=',,' is not a valid delimiter"):
        formats.csv(delimiter=",,")


# --- written ---------------------------------------------------------------------------------------


def published(folder: Path, sink: Any, *rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> Path:
    """Return the file with rows that the sink has published, next to which is an empty one."""
    sink = sink.prepared(schema, ("job", "sink"))
    sink.validate(schema)
    sink.committer().begin()
    out = sink.open(sink_context(schema))
    for row in rows:
        out.write(batch_of(schema, row))
    sink.committer().commit(out.prepare(CheckpointId(1)))
    out.close()
    empty, found = sorted(folder.iterdir(), key=lambda path: "-empty." not in path.name)
    assert empty.suffix == found.suffix
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_written_files_are_read_back(tmp_path: Path, format: Any, codec: str) -> None:
    rows = [{"user": 1, "name": 'a "b",\nc'}, {"user": 2, "name": None}, {"user": 3, "name": ""}]
    sink = files.sink(tmp_path / "out", format=format, compression=codec)
    found = published(tmp_path / "out", sink, *rows)
    end = {"none": "", "gzip": ".gz", "zstd": ".zst"}[codec]
    assert found.name.endswith(f"-1-0-00000.{format}{end}")
    assert read_all(files.source(tmp_path / "out", schema=SCHEMA)) == rows
    files.sink(tmp_path / "out", format=format, mode="overwrite").prepared(
        SCHEMA, ("job", "sink")
    ).committer().begin()
    assert not found.exists()


def test_csv_is_written_with_its_settings(tmp_path: Path) -> None:
    sink = files.sink(tmp_path / "out", format=formats.csv(delimiter=";"))
    found = published(tmp_path / "out", sink, {"user": 1, "name": "x"})
    assert found.read_text() == '"user";"name"\n1;"x"\n'
    assert sink.describe() == f"csv files in {tmp_path / 'out'}"


def test_text_is_written_with_a_line_per_row(tmp_path: Path) -> None:
    words = pa.schema([pa.field("word", pa.string())])
    sink = files.sink(tmp_path / "out", format="text")
    found = published(tmp_path / "out", sink, {"word": "one"}, {"word": ""}, schema=words)
    assert (found.suffix, found.read_text()) == (".txt", "one\n\n")
    for bad, what in ((None, "a line of a file cannot be null"), ("a\nb", "the row contains a line")):
        out = sink.open(sink_context(words))
        out.write(batch_of(words, {"word": "fine"}, {"word": bad}))
        with pytest.raises(InputError, match=what) as caught:
            out.prepare(CheckpointId(1))
        assert caught.value.record == str({"word": bad})
        out.close()
    with pytest.raises(SchemaError, match="a single column, of text"):
        sink.validate(SCHEMA)
