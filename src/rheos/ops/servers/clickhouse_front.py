"""HTTP server in front of ClickHouse's engine: `python clickhouse_front.py HOST PORT FOLDER`.

It answers POST as ClickHouse's HTTP interface does: the query is the body, or the parameter `query` if
the body has the rows of an INSERT. Other parameters are settings.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_OF_HTTP = {"query", "wait_end_of_query", "database", "default_format"}
"""Parameters that are not settings of the engine."""


class Engine:
    """Runs one query at a time."""

    def __init__(self, folder: str) -> None:
        session: Any = importlib.import_module("chdb.session")
        self._session = session.Session(folder)
        self._lock = threading.Lock()
        self._folder = folder

    def run(self, query: str, settings: dict[str, str], rows: bytes) -> bytes:
        """Return the result of a query. Raises any error of the engine."""
        changed = ", ".join(f"{name} = {_literal(value)}" for name, value in settings.items())
        suffix = f" SETTINGS {changed}" if changed else ""
        with self._lock:
            if not rows:
                return bytes(self._session.query(query + suffix, "TabSeparated").bytes())
            with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".rows") as file:
                file.write(rows)
                file.flush()
                head, _, form = query.rpartition(" FORMAT ")
                infile = f"{head} FROM INFILE {_literal(file.name)}{suffix} FORMAT {form}"
                return bytes(self._session.query(infile, "TabSeparated").bytes())


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def serve(host: str, port: int, folder: str) -> None:
    """Answer requests until the process ends."""
    Path(folder).mkdir(exist_ok=True)
    engine = Engine(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            settings = {name: value for name, value in asked.items() if name not in _OF_HTTP}
            query, rows = (asked["query"], body) if "query" in asked else (body.decode(), b"")
            try:
                status, content = 200, engine.run(query, settings, rows)
            except Exception as error:  # The client decides by the code in the message.
                status, content = 500, str(error).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Write no line for each request."""

    server = ThreadingHTTPServer((host, port), Handler)
    print("Ready for connections", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
