"""A registry of schemas, as Confluent's speaks over HTTP: from ids to schemas, and back.

An id means the same schema for ever, so answers are kept. Nothing that it answers is trusted: size and
form are checked here, and schemas where they are parsed.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from rheos.errors import ConfigurationError, ProgramError, TransportError
from rheos.formats.avro_schemas import UnfitSchemaError
from rheos.redaction import redacted

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 1 << 20
_MAX_KEPT = 10_000
_JSON = "application/vnd.schemaregistry.v1+json"


class _Found(msgspec.Struct):
    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")
    references: list[Any] = []


class _Registered(msgspec.Struct):
    id: int


class SchemaRegistry:
    """Asks one registry. Its calls block, up to `TIMEOUT_S` each; one runs at a time.

    Raises TransportError where it cannot be reached or is in trouble, which may pass, and
    ConfigurationError where it refuses, or is no registry.
    """

    def __init__(self, url: str) -> None:
        """Asks nothing yet. Raises ProgramError for what is no URL."""
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ProgramError(
                f"registry={redacted(repr(url))} is no URL of a schema registry",
                hint='write "http://localhost:8081"',
            )
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit(parts._replace(netloc=host)).rstrip("/")
        self._headers = {"Accept": _JSON, "Content-Type": _JSON}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._open = urllib.request.build_opener(_NoRedirects).open
        self._schemas: dict[int, str] = {}

    def schema(self, id: int) -> str:
        """The Avro schema of the id, as JSON. Raises UnfitSchemaError, too, where there is none."""
        if id not in self._schemas:
            found = self._asked(f"/schemas/ids/{id}", None, _Found, f"schema {id}")
            if found.schema_type != "AVRO":
                raise UnfitSchemaError(
                    f"schema {id} of the registry is of {found.schema_type}, not Avro"
                )
            if found.references:
                raise UnfitSchemaError(f"schema {id} refers to other schemas, which is not supported")
            if len(self._schemas) >= _MAX_KEPT:
                self._schemas.clear()
            self._schemas[id] = found.schema
        return self._schemas[id]

    def registered(self, subject: str, schema: str) -> int:
        """The id of the schema, which becomes a version of the subject, if it is none yet."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        body = msgspec.json.encode({"schema": schema})
        found: _Registered = self._asked(path, body, _Registered, f"subject {subject!r}")
        return found.id

    def _asked(self, path: str, body: bytes | None, kind: type[Any], what: str) -> Any:
        request = urllib.request.Request(self._url + path, body, self._headers)
        try:
            with self._open(request, timeout=TIMEOUT_S) as answer:
                data = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, what) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TransportError(
                f"the schema registry {self._url} cannot be reached: {reason}",
                hint="does it run, and does the URL lead to it from every worker?",
            ) from error
        if len(data) > MAX_ANSWER_BYTES:
            raise UnfitSchemaError(f"{what} of the registry is longer than {MAX_ANSWER_BYTES} bytes")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{self._url} does not answer as a schema registry does: {error}",
                hint="does the URL lead to a schema registry?",
            ) from None

    def _refused(self, error: urllib.error.HTTPError, what: str) -> Exception:
        said = error.read(500).decode(errors="replace")
        if error.code == 404:
            return UnfitSchemaError(f"{what} is not in the schema registry {self._url}")
        if error.code == 429 or error.code >= 500:
            return TransportError(
                f"the schema registry {self._url} is in trouble: {error.code} {said}",
                hint="it may pass; the registry's log says more",
            )
        return ConfigurationError(
            f"the schema registry {self._url} refuses {what}: {error.code} {said}",
            hint='give a login as in "https://user:password@host", or a schema that it accepts',
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A login goes to nobody else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None
