"""The layout of the database's keys, and the states of a database.

    state (2 bytes) · key group (2 bytes) · key · namespace

All parts are big-endian, so a state's key groups are ranges of the database, and the entries of a key
are adjacent. Keys are msgpack, in which no key is a prefix of another. The namespace is that of the
canonical rows (`state/parts.py`), with the data to find the end of the key:

    values   nothing
    lists    the place of the segment, 8 bytes
    maps     the encoded key of the entry, and the length of the state's key, 4 bytes
    timers   are ordered by time: mark · time (8 bytes, its sign flipped) · key

State 0 is the catalogue.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from rheos.core.errors import UnrestorableError
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.rocksdb.database import Database

_RANGE = struct.Struct(">I")
_LENGTH = struct.Struct(">I")
_PLACE_BYTES = 8
_CATALOGUE = _RANGE.pack(0)
_VERSION = 1


class EntryForm(Enum):
    VALUE = "value"
    LIST = "list"
    MAP = "map"
    TIMERS = "timers"


def range_start(state: int, group: int = 0) -> bytes:
    """Return the start of a key group of a state. The start of the next group is its end."""
    return _RANGE.pack((state << 16) + group)


def join(form: EntryForm, key: bytes, namespace: bytes) -> bytes:
    """Return the part of a database key that follows the key group."""
    match form:
        case EntryForm.VALUE | EntryForm.LIST:
            return key + namespace
        case EntryForm.MAP:
            return key + namespace + _LENGTH.pack(len(key))
        case EntryForm.TIMERS:
            return namespace[:1] + _flipped(namespace[1:]) + key


def split(form: EntryForm, rest: bytes) -> tuple[bytes, bytes]:
    """Return the key and the namespace."""
    match form:
        case EntryForm.VALUE:
            return rest, b""
        case EntryForm.LIST:
            return rest[:-_PLACE_BYTES], rest[-_PLACE_BYTES:]
        case EntryForm.MAP:
            length = _LENGTH.unpack_from(rest, len(rest) - _LENGTH.size)[0]
            return rest[:length], rest[length : -_LENGTH.size]
        case EntryForm.TIMERS:
            return rest[9:], rest[:1] + _flipped(rest[1:9])


def _flipped(time: bytes) -> bytes:
    """Return the time with its sign bit flipped: its bytes then sort like signed numbers."""
    return bytes((time[0] ^ 0x80,)) + time[1:]


class StateId(msgspec.Struct, frozen=True):
    id: int
    form: EntryForm


class DatabaseCatalogue(msgspec.Struct):
    """The states of a database. It is stored in the database itself."""

    version: int = _VERSION
    states: dict[str, StateId] = {}
    next_place: int = 0
    """Place of the next segment of a list. Places only increase."""

    @staticmethod
    def read(database: Database) -> DatabaseCatalogue:
        data = database.get(_CATALOGUE)
        if data is None:
            return DatabaseCatalogue()
        catalogue = msgspec.msgpack.decode(data, type=DatabaseCatalogue)
        if catalogue.version > _VERSION:
            raise UnrestorableError(
                f"state files are of format {catalogue.version}; this version reads up to {_VERSION}",
                hint="continue the job with the version of rheos that wrote them, or a later one",
            )
        return catalogue

    def write(self, database: Database) -> None:
        batch = database.batch()
        batch.put(_CATALOGUE, msgspec.msgpack.encode(self))
        database.write(batch)

    def declare(self, name: str, form: EntryForm) -> int:
        """Return the id of the state with this name and form, a new one if there is no such state."""
        known = self.states.get(name)
        if known is None or known.form is not form:
            known = StateId(1 + max((state.id for state in self.states.values()), default=0), form)
            self.states[name] = known
        return known.id


class Places:
    """The places of keys: the key group and the encoded key, as the database has them.

    The group of a key is a hash that is cheap for many keys at once and expensive for a single one. So
    the caller announces the next keys (`expect`), and all of them are hashed together when the first
    one is needed.
    """

    def __init__(self, codec: KeyCodec, max_parallelism: int) -> None:
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._known: dict[Key, bytes] = {}
        self._expected: Sequence[Key] = ()

    def __len__(self) -> int:
        return len(self._known)

    def expect(self, keys: Sequence[Key]) -> None:
        self._expected = keys

    def forget(self) -> None:
        self._known.clear()

    def of(self, key: Key) -> bytes:
        found = self._known.get(key)
        if found is None:
            self.find([key, *self._expected])
            found = self._known[key]
        return found

    def of_all(self, keys: Iterable[Key]) -> list[bytes]:
        keys = list(keys)
        self.find(keys)
        return [*map(self._known.__getitem__, keys)]

    def find(self, keys: Iterable[Key]) -> None:
        new = list({key: None for key in keys if key not in self._known})
        if new:
            groups = self._codec.groups(new, self._max_parallelism).astype(">u2").tobytes()
            encode = self._codec.encode
            self._known.update(
                (key, groups[2 * i : 2 * i + 2] + encode(key)) for i, key in enumerate(new)
            )

    def key_of(self, encoded: bytes) -> Key:
        return self._codec.decode(encoded)

    def note(self, key: Key, place: bytes) -> None:
        """Record the place of a key, if the caller knows it."""
        self._known[key] = place
