"""The programs of docs/formats.md, with other addresses, on a real broker. The registry is a stand-in,
because no package contains one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from tests.connectors.kafka.reading import Topic
from tests.docs.walks import steps
from tests.formats.registry import FakeRegistry, fake_registry

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
PRINTED = "[{'id': 7, 'item': 'tea', 'note': None}, {'id': 8, 'item': 'milk', 'note': 'two'}]\n"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


def run(file: str, topic: str, kafka_broker: Any, registry: FakeRegistry) -> None:
    made = Topic(kafka_broker.address, 1)
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    for here, there in (
        ("localhost:9092", kafka_broker.address),
        ("http://localhost:8081", registry.url),
        (f'("{topic}"', f'("{made.name}"'),
    ):
        assert here in code
        code = code.replace(here, there)
    exec(compile(code, file, "exec"), {})


def test_the_avro_program_of_the_page_runs(
    kafka_broker: Any, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    run("by_avro.py", "orders", kafka_broker, registry)
    assert capsys.readouterr().out == PRINTED
    assert list(registry.versions) == ["orders-value"]


def test_the_protobuf_program_of_the_page_runs(
    kafka_broker: Any,
    registry: FakeRegistry,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.desc").write_bytes(compiled())
    run("by_protobuf.py", "parcels", kafka_broker, registry)
    assert capsys.readouterr().out == PRINTED
    assert list(registry.versions) == ["parcels-value"]


def compiled() -> bytes:
    """Compile the page's shop.proto with protoc."""
    files, field = descriptor_pb2.FileDescriptorSet(), descriptor_pb2.FieldDescriptorProto
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(
        [("id", field.TYPE_INT64), ("item", field.TYPE_STRING), ("note", field.TYPE_STRING)], 1
    ):
        order.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    order.oneof_decl.add(name="_note")
    order.field[2].proto3_optional, order.field[2].oneof_index = True, 0
    return files.SerializeToString()


def test_no_program_is_overlooked() -> None:
    tested = Path(__file__).read_text()
    assert all(f'run("{step.file}"' in tested for step in steps(PAGE))
