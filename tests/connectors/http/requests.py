"""Requests of authorised and unauthorised clients."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WITHIN_S = 60.0


@dataclass
class Answer:
    status: int
    content: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def ask(
    address: str,
    path: str,
    body: bytes | str | None = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    connection = http.client.HTTPConnection(address, timeout=WITHIN_S)
    try:
        how = method or ("GET" if body is None else "POST")
        connection.request(how, path, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.headers.get("Content-Type") == "application/json"
        return Answer(answer.status, json.loads(text) if is_json else text, dict(answer.headers))
    finally:
        connection.close()


class Asking:
    """Request that waits for its answer in a thread."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._answer: Answer | None = None
        self._thread = threading.Thread(target=self._ask, args=(args, more), daemon=True)
        self._thread.start()

    def _ask(self, args: Any, more: Any) -> None:
        self._answer = ask(*args, **more)

    @property
    def is_done(self) -> bool:
        return self._answer is not None

    def answer(self) -> Answer:
        self._thread.join(WITHIN_S)
        assert self._answer is not None
        return self._answer
