"""Every REST operation with requests that no job can execute: the answer is 4xx with the reason."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rheos.ops.control.registry import Registry
from rheos.ops.dashboard.openapi import document
from rheos.ops.dashboard.operations import operations
from rheos.ops.dashboard.replays import ReplayProcesses
from tests.cli.stand_ins import StandIn
from tests.ops.dashboard.conftest import OPERATOR, Asking, asking, job, stored

__all__ = ["asking", "job", "stored"]

HOSTILE = (
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e308",
    b"-1e308",
    b"1e-400",
    b"1e999",
    b"NaN",
    b"9" * 30,
    b"-" + b"9" * 5000,
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"' + b"x" * 5000 + b'"',
    b'"../../etc/passwd"',
    b'"s3://key:hidden@bucket/a"',
    b'"/' + b"a/" * 2000 + b'"',
    b"[" * 5000,
    b"[" * 40 + b"]" * 40,
    b'{"a":' * 40 + b"1" + b"}" * 40,
    b'{"\\u0000": 1}',
    b"[1, {}]",
    b"{}",
    b"[]",
    b'""',
    b'"1"',
    b"1",
    b"0.5",
)
DOCUMENT = document()


@pytest.fixture(autouse=True)
def stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is there to be asked again, and no program is run."""
    monkeypatch.setattr(ReplayProcesses, "ask", lambda *_: msgspec.Raw(b"{}"))
    monkeypatch.setattr(StandIn, "cancel", lambda _: None)
    monkeypatch.setattr(StandIn, "_stop", lambda *_: None)


def fields_of(operation: Any) -> dict[str, Any]:
    """The fields of the body, as the document has them."""
    described = DOCUMENT["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
    if "requestBody" not in described:
        return {}
    reference = described["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    return found["properties"]


@st.composite
def requests(draw: st.DrawFn) -> tuple[Any, bytes, str]:
    operation = draw(st.sampled_from(operations()))
    text = st.sampled_from(HOSTILE) | st.text(max_size=8).map(lambda t: json.dumps(t).encode())
    names = sorted(fields_of(operation))
    chosen = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    parts = [json.dumps(name).encode() + b": " + draw(text) for name in chosen]
    body = b"{" + b", ".join(parts) + b"}"
    body = draw(st.sampled_from((body, body, body, b"", b"\xff", b"[" * 9000, b'{"other": 1}')))
    asked = [
        f"{name}={quote(draw(text))}"
        for name in operation.query
        for _ in range(draw(st.integers(0, 2)))
    ]
    return operation, body, "&".join(asked)


VALID: dict[str, dict[str, Any]] = {
    "why": {"sink": "s", "row": {}},
    "debug": {"key": "k"},
    "rescale": {"parallelism": 2},
}
"""Further arguments that an operation requires."""


def test_no_value_of_a_field_causes_an_internal_error(asking: Asking, job: StandIn) -> None:
    """Each field and parameter of each operation with each value, the others as they should be."""
    asked = 0
    for operation in operations():
        for name in fields_of(operation):
            others = {n: v for n, v in VALID.get(operation.name, {}).items() if n != name}
            known = [json.dumps(n).encode() + b":" + json.dumps(v).encode() for n, v in others.items()]
            for value in HOSTILE:
                body = b"{" + b",".join([json.dumps(name).encode() + b":" + value, *known]) + b"}"
                answered(asking, operation, body, "")
                asked += 1
        for name in operation.query:
            for value in HOSTILE:
                answered(asking, operation, b"", f"operator=x&{name}={quote(value)}")
                asked += 1
    assert asked > 500


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request_of=requests())
def test_no_request_causes_an_internal_error(
    asking: Asking, job: StandIn, request_of: tuple[Any, bytes, str]
) -> None:
    answered(asking, *request_of)


def answered(asking: Asking, operation: Any, body: bytes, query: str) -> None:
    """Ask, and look at the answer."""
    (record,) = Registry().records()
    answer = asking.client.request(
        operation.method,
        f"/api/v1{operation.path.format(job=record.key)}?{query}",
        content=body if operation.method == "POST" else None,
        headers={"Authorization": f"Bearer {OPERATOR}"},
    )
    assert answer.status_code < 500, f"{operation.name} {body[:80]!r} {query[:80]}: {answer.text}"
    if answer.status_code != 200:
        assert answer.json()["what"]
    assert "hidden" not in answer.text


def test_the_random_fields_are_those_of_the_table() -> None:
    for operation in operations():
        expected = [] if operation.body is None else operation.body.__struct_encode_fields__
        assert sorted(fields_of(operation)) == sorted(expected)
