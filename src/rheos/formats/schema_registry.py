"""Client of a schema registry with Confluent's interface: it finds and registers schemas.

An id always refers to the same schema, so responses are cached. Responses are not trusted: this module
checks their size and form, and parsers check the schemas.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from rheos.connectors.calls.bounded_calls import ThreadCalls
from rheos.connectors.calls.http_deadlines import NoRedirects, opener
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import ConfigurationError, ProgramError, TransportError, UnavailableError
from rheos.core.redaction import redacted
from rheos.formats.avro_bounds import UnfitSchemaError

REQUEST = OutsideCall(
    server="schema registry",
    call="requesting or registering a schema",
    limit_s=15.0,
    limit="10 s for the whole request; 15 s if resolving the host name takes longer",
    then="the attempt fails, and restarts by its restart strategy; nothing was decoded or written "
    "in the meantime",
)
TIMEOUT_S = 10.0
"""Seconds for a whole request, up to the last byte of its response."""
MAX_ANSWER_BYTES = 1 << 20
_MAX_KEPT = 10_000
_JSON = "application/vnd.schemaregistry.v1+json"


MAX_REFERENCES = 64
"""Maximum number of schemas that a schema may reference, directly or indirectly."""

Kind: TypeAlias = Literal["AVRO", "PROTOBUF"]


class Reference(msgspec.Struct, frozen=True):
    """Version of a schema that another one needs."""

    name: str
    """Name by which the other schema refers to it; for Protobuf, the path of its file."""
    subject: str
    version: int


class _FoundSchema(msgspec.Struct):
    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")
    references: list[Reference] = []


class _RegisteredSchema(msgspec.Struct):
    id: int


class _Version(msgspec.Struct):
    version: int


class _ToRegister(msgspec.Struct, rename="camel", omit_defaults=True):
    schema: str
    schema_type: Kind = "AVRO"
    references: Sequence[Reference] = ()


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema of the registry, with all that it needs."""

    text: str
    """The schema: for Avro its JSON, for Protobuf a FileDescriptorProto in base64."""
    refers_to: Mapping[str, str]
    """Schemas that it references, by name, each after those that it needs itself."""


class SchemaRegistry:
    """Client of one registry. Its calls block, up to `TIMEOUT_S` each; one runs at a time.

    Raises TransportError if the registry is unreachable or temporarily fails, and ConfigurationError if
    it refuses the request, or is not a schema registry.
    """

    def __init__(self, url: str) -> None:
        """Create a client, without a request. Raises ProgramError if this is not a URL."""
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ProgramError(
                f"registry={redacted(repr(url))} is not the URL of a schema registry",
                hint='write "http://localhost:8081"',
            )
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit(parts._replace(netloc=host)).rstrip("/")
        self._headers = {"Accept": _JSON, "Content-Type": _JSON}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._open = opener(NoRedirects).open
        self._calls = ThreadCalls()
        self._schemas: dict[int, KnownSchema] = {}

    def schema(self, id: int, kind: Kind = "AVRO") -> KnownSchema:
        """Return the schema with the id. Also raises UnfitSchemaError if that schema has another
        kind."""
        if id not in self._schemas:
            what = f"schema {id}"
            found = self._find_schema(f"/schemas/ids/{id}", kind, what)
            needed: dict[str, str] = {}
            self._add_references(found, kind, what, needed, {})
            if len(self._schemas) >= _MAX_KEPT:
                self._schemas.clear()
            self._schemas[id] = KnownSchema(found.schema, needed)
        return self._schemas[id]

    def _find_schema(self, path: str, kind: Kind, what: str) -> _FoundSchema:
        # The source of a .proto file would require a parser of that language.
        form = "?format=serialized" if kind == "PROTOBUF" else ""
        found: _FoundSchema = self._asked(f"{path}{form}", None, _FoundSchema, what)
        if found.schema_type != kind:
            raise UnfitSchemaError(
                f"{what} of the registry has the type {found.schema_type}, not {kind.capitalize()}"
            )
        return found

    def _add_references(
        self,
        of: _FoundSchema,
        kind: Kind,
        what: str,
        needed: dict[str, str],
        asked: dict[str, Reference],
    ) -> None:
        """Add the schemas that a schema references. `asked` has the references that were followed so
        far, by name, so that cycles end. The parser refuses them later."""
        for reference in of.references:
            name = reference.name
            if asked.setdefault(name, reference) != reference:
                raise UnfitSchemaError(f"{what} refers to two schemas by the same name, {name!r}")
            if asked[name] is not reference:
                continue
            if len(asked) > MAX_REFERENCES:
                raise UnfitSchemaError(f"{what} refers to more than {MAX_REFERENCES} other schemas")
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            found = self._find_schema(path, kind, f"{name!r}, which {what} refers to,")
            self._add_references(found, kind, what, needed, asked)
            needed[name] = found.schema
            if sum(map(len, needed.values())) > MAX_ANSWER_BYTES:
                raise UnfitSchemaError(
                    f"the schemas that {what} refers to exceed {MAX_ANSWER_BYTES} bytes"
                )

    def registered(
        self, subject: str, schema: str, kind: Kind = "AVRO", references: Sequence[Reference] = ()
    ) -> int:
        """Return the id of the schema, after registering it as a version of the subject if needed."""
        asked = _ToRegister(schema, kind, references)
        found: _RegisteredSchema = self._posted(subject, "/versions", asked, _RegisteredSchema)
        return found.id

    def reference(
        self, name: str, schema: str, kind: Kind, references: Sequence[Reference]
    ) -> Reference:
        """Register a schema under its name, and return a reference to it."""
        self.registered(name, schema, kind, references)
        found: _Version = self._posted(name, "", _ToRegister(schema, kind, references), _Version)
        return Reference(name, name, found.version)

    def _posted(self, subject: str, of: str, asked: _ToRegister, kind: type[Any]) -> Any:
        path = f"/subjects/{quote(subject, safe='')}{of}"
        try:
            return self._asked(path, msgspec.json.encode(asked), kind, f"subject {subject!r}")
        except UnfitSchemaError as error:
            raise ConfigurationError(
                f"the schema cannot be registered: {error}",
                hint="check that the URL belongs to a schema registry",
            ) from error

    def _asked(self, path: str, body: bytes | None, kind: type[Any], what: str) -> Any:
        try:
            return self._calls.run(
                f"requesting {what} from the schema registry {self._url}",
                REQUEST.limit_s,
                lambda progressed: self._ask(path, body, kind, what),
            )
        except UnavailableError as error:
            raise TransportError(error.what, hint=error.hint) from None

    def _ask(self, path: str, body: bytes | None, kind: type[Any], what: str) -> Any:
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
                hint="check that it is running, and reachable from every worker at this URL",
            ) from error
        if len(data) > MAX_ANSWER_BYTES:
            raise UnfitSchemaError(f"{what} of the registry exceeds {MAX_ANSWER_BYTES} bytes")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{self._url} does not respond like a schema registry: {error}",
                hint="check that the URL belongs to a schema registry",
            ) from None

    def _refused(self, error: urllib.error.HTTPError, what: str) -> Exception:
        response = error.read(500).decode(errors="replace")
        if error.code == 404:
            return UnfitSchemaError(f"the schema registry {self._url} does not have {what}")
        if error.code == 429 or error.code >= 500:
            return TransportError(
                f"the schema registry {self._url} failed: {error.code} {response}",
                hint="this may be temporary; see the registry's log",
            )
        return ConfigurationError(
            f"the schema registry {self._url} rejects {what}: {error.code} {response}",
            hint='pass a user as in "https://user:password@host", or a schema that the registry '
            "accepts",
        )
