"""Stand-in for an OpenSearch that is overloaded or refuses requests, which a real one does not do on
demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Said: TypeAlias = tuple[int, Any]
"""A status, and what is said in JSON."""


class StandIn:
    """Answers bulk requests one after the other as in `answers`; after that it accepts everything."""

    def __init__(self, answers: Sequence[Said | Callable[[list[Any]], Said]]) -> None:
        self.requests: list[list[Any]] = []
        """The lines of each bulk request."""
        self.headers: list[dict[str, str]] = []
        self._answers = list(answers)
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                lines = [json.loads(line) for line in body.splitlines()]
                stand_in.headers.append({name.title(): value for name, value in self.headers.items()})
                status, said = stand_in._answer(lines)
                content = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def _answer(self, lines: list[Any]) -> Said:
        self.requests.append(lines)
        if not self._answers:
            return items(*[200] * actions(lines))
        answer = self._answers.pop(0)
        return answer(lines) if callable(answer) else answer

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def actions(lines: list[Any]) -> int:
    return sum(1 for line in lines if set(line) & {"index", "delete"} and len(line) == 1)


def items(*statuses: int, kind: str = "t") -> Said:
    """Return an answer with this number of items. Those that failed have an error of this kind, with a
    reason."""
    found = [
        {
            "index": {"status": status}
            | ({} if status < 300 else {"error": {"type": kind, "reason": "r"}})
        }
        for status in statuses
    ]
    return 200, {"items": found}
