"""A schema registry on this machine, for tests: it keeps schemas, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class FakeRegistry:
    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        """By id: a schema as text, or a whole answer."""
        self.versions: dict[str, list[Any]] = {}
        """Of each subject: what is answered, or was registered, the first first."""
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.always: tuple[int, bytes, dict[str, str]] | None = None
        """What it answers to everything: status, body and headers."""
        self.url = ""

    def answer(self, path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(path)
        if self.always is not None:
            return self.always
        _, kind, *names = urlsplit(path).path.split("/")
        if kind == "schemas":
            found = self.schemas.get(int(names[-1]))
        else:
            subject = self.versions.setdefault(unquote(names[0]), [])
            if body:
                return 200, json.dumps(self._posted(subject, json.loads(body))).encode(), {}
            version = int(names[-1])
            found = subject[version - 1] if version <= len(subject) else None
        if found is None:
            return 404, b'{"error_code": 40403, "message": "Schema not found"}', {}
        whole = {"schema": found} if isinstance(found, str) else found
        return 200, json.dumps(whole).encode(), {}

    def _posted(self, subject: list[Any], schema: Any) -> dict[str, int]:
        """Registers it, or finds it again: a registry answers with the id to the one request, and with
        the version, too, to the other."""
        if schema.get("schemaType", "AVRO") == "AVRO" and not schema.get("references"):
            schema = schema["schema"]
        if schema not in subject:
            subject.append(schema)
        ids = [id for id, each in self.schemas.items() if each == schema]
        if not ids:
            ids = [len(self.schemas) + 1]
            self.schemas[ids[0]] = schema
        return {"id": ids[0], "version": subject.index(schema) + 1}


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            registry.logins.append(self.headers.get("Authorization"))
            status, body, headers = registry.answer(self.path, self.rfile.read(length))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
