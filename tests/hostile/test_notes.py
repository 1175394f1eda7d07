"""CP24: a driver's note that is not plausible is watched before the job is taken over."""

from __future__ import annotations

import msgspec

from rheos.core.checkpoint.driver_note import (
    WATCH_MS,
    Driver,
    DriverNote,
    NoteVerdict,
    decide,
    decode_note,
    encode_note,
)
from rheos.core.protocol.ids import JobId
from rheos.ops.control.driver_note import driver_of

JOB = JobId("job")
NOTE = DriverNote(
    owner="a",
    driver="process 7 on host h",
    process=msgspec.Raw(b'{"pid":7,"host":"h"}'),
    since_ms=5,
    renewals=4,
    job=JOB,
)


def believed(data: bytes) -> bool:
    return decode_note(data, JOB).owner != ""


def test_a_note_is_read_back() -> None:
    read = decode_note(encode_note(NOTE), JOB)
    assert msgspec.structs.replace(read, crc32=None) == NOTE


def test_a_note_of_an_older_version_is_trusted() -> None:
    old = {"owner": "a", "driver": "d", "process": None, "since_ms": 5, "renewals": 4}
    assert decode_note(msgspec.json.encode(old), JOB).owner == "a"


def test_a_flipped_bit_is_noticed() -> None:
    whole = encode_note(NOTE)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        read = decode_note(bytes(flipped), JOB)
        same = msgspec.structs.replace(read, crc32=None) == NOTE
        assert same or read.owner == "", f"bit {bit}"


def test_the_note_of_another_job_is_not_trusted() -> None:
    assert not believed(encode_note(msgspec.structs.replace(NOTE, job="another")))


def test_a_deeply_nested_note_is_not_trusted() -> None:
    assert not believed(b'{"owner":' + b"[" * 100_000)
    assert not believed(b'{"process":' + b"[" * 100_000)


def test_an_unreadable_note_is_watched_before_a_takeover() -> None:
    damaged = decode_note(b"?", JOB)
    assert driver_of(damaged) is Driver.UNKNOWN
    assert decide(damaged, damaged, Driver.UNKNOWN, 0) is NoteVerdict.WATCH
    assert decide(damaged, damaged, Driver.UNKNOWN, WATCH_MS) is NoteVerdict.FREE
    renewed = msgspec.structs.replace(NOTE, renewals=5)
    assert decide(damaged, renewed, Driver.UNKNOWN, 3000) is NoteVerdict.IN_USE
