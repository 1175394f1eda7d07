"""REST catalogs, whose every request has a time limit.

The library itself sets no limit. If a server's machine is lost without closing its connections, a
request would block forever, and with it all later calls for the table (`LoneCalls`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from rheos.connectors.iceberg.library import library

CONNECT_S: Final = 10.0
"""Time limit for connecting to the server, in seconds."""
ANSWER_S: Final = 60.0
"""Seconds that the server may take to begin its answer, or to continue it."""


def rest_catalog(name: str, properties: Mapping[str, Any]) -> Any:
    """Return a catalog of the library.

    Args:
        name: name of the catalog.
        properties: its properties, also those of the configuration.
    """
    return _bounded_class()(name, **properties)


@cache
def _bounded_class() -> Any:
    """Return the library's class of REST catalogs, with bounded requests."""
    rest: Any = library("catalog.rest")

    class BoundedRestCatalog(rest.RestCatalog):  # type: ignore[misc]
        def _config_headers(self, session: Any) -> None:
            """Configure a new session. The library calls it before the session's first request."""
            session.request = partial(_bounded_request, session, session.request)
            super()._config_headers(session)

    return BoundedRestCatalog


def _bounded_request(session: Any, request: Any, *arguments: Any, **settings: Any) -> Any:
    """Send a request of a session."""
    # By default, a CA bundle in an environment variable would replace the one of the properties.
    verify = None if session.verify is True else session.verify
    return request(*arguments, timeout=(CONNECT_S, ANSWER_S), verify=verify, **settings)
