"""CP24: a driver's note that cannot be believed is watched before the job is taken."""

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


def test_it_is_read_as_it_was_written() -> None:
    read = decode_note(encode_note(NOTE), JOB)
    assert msgspec.structs.replace(read, crc32=None) == NOTE


def test_one_of_an_older_version_is_believed() -> None:
    old = {"owner": "a", "driver": "d", "process": None, "since_ms": 5, "renewals": 4}
    assert decode_note(msgspec.json.encode(old), JOB).owner == "a"


def test_each_bit() -> None:
    whole = encode_note(NOTE)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        read = decode_note(bytes(flipped), JOB)
        same = msgspec.structs.replace(read, crc32=None) == NOTE
        assert same or read.owner == "", f"bit {bit}"


def test_the_note_of_another_job_says_nothing() -> None:
    assert not believed(encode_note(msgspec.structs.replace(NOTE, job="another")))


def test_what_is_nested_without_end_says_nothing() -> None:
    assert not believed(b'{"owner":' + b"[" * 100_000)
    assert not believed(b'{"process":' + b"[" * 100_000)


def test_one_that_says_nothing_is_watched_and_not_taken_at_once() -> None:
    damaged = decode_note(b"?", JOB)
    assert driver_of(damaged) is Driver.UNKNOWN
    assert decide(damaged, damaged, Driver.UNKNOWN, 0) is NoteVerdict.WATCH
    assert decide(damaged, damaged, Driver.UNKNOWN, WATCH_MS) is NoteVerdict.FREE
    renewed = msgspec.structs.replace(NOTE, renewals=5)
    assert decide(damaged, renewed, Driver.UNKNOWN, 3000) is NoteVerdict.IN_USE
