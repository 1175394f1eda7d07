"""All decoders of what comes from a socket, and of files that others may write, each as a function that
takes any bytes; and true messages for each.

A decoder returns what was decoded, or None where it has refused the bytes by its own error. Whatever
else happens is a defect. What a checksum covers comes with the right one, so that the decoder behind
it is reached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors import spilling
from rheos.connectors.files import committer
from rheos.connectors.kafka import staged_epochs
from rheos.connectors.postgres import staged_rows
from rheos.connectors.spark import staging_manifest
from rheos.connectors.staged_files import StagedRowsFile
from rheos.core.checkpoint import driver_note, log_entries, savepoint
from rheos.core.errors import Site, TransportError, UnrestorableError, UserFunctionError
from rheos.core.metrics import history_files
from rheos.core.protocol import control as messages
from rheos.core.protocol import error_data, framing, wire
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.decoding import MalformedError
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import Attempt, ChannelId, CheckpointId, JobId, OperatorId
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.sealed_files import SealedFileKind
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.ops.control import command_messages, mailbox
from rheos.ops.control.processes import this_process
from rheos.runtimes.continuous import control
from rheos.runtimes.job_operations import JOB_OPERATIONS, ProfileSubtask, TakeSavepoint
from tests.cli.stand_ins import HISTORY, METRICS, STATUS, outline
from tests.formats.examples import EXAMPLES

SCHEMA = pa.schema([("v", pa.int64()), ("s", pa.string())])
_ROOT = "/checkpoints/job/staged/rows"
_JOB = JobId("job")
_HISTORY = "job/figures/fine-0000000000000001.json"


def _bounded(decode: Callable[[bytes], Any], refusal: type[Exception]) -> Callable[[bytes], Any]:
    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except refusal:
            return None

    return decoded


def _read_back(sealed: SealedFileKind, open: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Of a body, which is sealed as it is."""

    def decoded(body: bytes) -> Any:
        try:
            msgspec.json.decode(body, type=msgspec.Raw)
            file = sealed.seal(body, sealed.newest)
        except (ValueError, RecursionError):
            file = body
        return open(file)

    return _bounded(decoded, UnrestorableError)


def _of_format(name: str) -> Callable[[bytes], Any]:
    """Of a format, which gives bad payloads back."""
    example = EXAMPLES[name]
    decoder = example.format.decoder(example.schema)

    def decoded(data: bytes) -> Any:
        found = decoder.decode(pa.array([data], pa.binary()))
        found.rows.validate(full=True)
        return None if found.bad else found

    return decoded


def _payloads(name: str) -> list[bytes]:
    example = EXAMPLES[name]
    row = {each.name: None for each in example.schema} | example.row
    rows = pa.RecordBatch.from_pylist([row], schema=example.schema)
    payloads: list[bytes] = example.format.encoder(example.schema).encode(rows).to_pylist()
    return payloads


def _batch(data: bytes) -> Any:
    """All bytes of texts are read: memory that is not the batch's would end the process."""
    batch = wire.BatchDecoder(SCHEMA).decode(memoryview(data))
    return batch.column("s").cast(pa.binary()).to_pylist()


_ANSWERS = [
    _bounded(command_messages.answer_decoder(operation).decode, MalformedError)
    for operation in JOB_OPERATIONS
]


def _of_any_operation(data: bytes) -> Any:
    """Decode an answer to each operation of the table. Return the first that the bytes are."""
    return next((found for decode in _ANSWERS if (found := decode(data)) is not None), None)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "from a worker": _bounded(control.from_worker.decode, MalformedError),
    "from the driver": _bounded(control.from_driver.decode, MalformedError),
    "request": _bounded(command_messages.request_decoder(JOB_OPERATIONS).decode, MalformedError),
    "mailed request": _bounded(mailbox._REQUEST.decode, MalformedError),
    "answer": _of_any_operation,
    "error": _bounded(lambda data: error_data.decoder.decode(data).error(), MalformedError),
    "header": _bounded(wire.decode_header, TransportError),
    "credit": _bounded(wire.decode_credit, TransportError),
    "hello": _bounded(framing.decode_hello, TransportError),
    "frames": _bounded(lambda data: framing.FrameCutter().cut(data), TransportError),
    "batch": _bounded(_batch, TransportError),
    "log entry": _read_back(
        log_entries._sealed("job/log/0000000001.json"),
        lambda data: log_entries.decode_entry(data, "job/log/0000000001.json"),
    ),
    "savepoint": _read_back(savepoint._sealed("/s"), lambda data: savepoint._decode(data, "/s")),
    "staging": _read_back(
        staging_manifest._sealed(_ROOT), lambda data: staging_manifest.decode_manifest(data, _ROOT)
    ),
    "history": _read_back(
        history_files._sealed(_HISTORY),
        lambda data: history_files.decode_segment(_HISTORY, data, "job"),
    ),
    "committable": _bounded(committer.decode_staged, UnrestorableError),
    "spilled epoch": _bounded(spilling.decode_spilled, UnrestorableError),
    "staged table rows": _bounded(staged_rows.decode_staged, UnrestorableError),
    "staged epoch": _bounded(staged_epochs.decode_epoch, UnrestorableError),
    # A note that cannot be read is one without an owner.
    "driver's note": lambda data: driver_note.decode_note(data, _JOB),
    **{f"format {name}": _of_format(name) for name in EXAMPLES},
}


def _true_messages() -> dict[str, list[bytes]]:
    at = Attempt(1)
    handle = StateHandle(
        operator=OperatorId("o"),
        subtask=0,
        state="s",
        kind=StateKind.KEYED,
        mode=PartMode.DELTA,
        size_bytes=5,
        rows=1,
        checksum=7,
        inline=b"bytes",
    )
    acknowledged = messages.Acknowledge(
        attempt=at,
        subtask=0,
        checkpoint=CheckpointId(3),
        handles=[handle],
        committables=[messages.CommittableHandle(OperatorId("o"), b"staged")],
        totals=messages.Totals({"o": 3}, {"o": 2}, {"o/late": 1}),
    )
    claim = log_entries.AttemptStarted(
        attempt=at,
        owner="a",
        reserved_to=CheckpointId(3),
        from_checkpoint=None,
        parallelism=2,
        completed=[],
    )
    completed = log_entries.CheckpointCompleted(
        attempt=at,
        owner="a",
        reserved_to=CheckpointId(3),
        checkpoint=CheckpointId(1),
        final=False,
        parallelism=2,
        max_parallelism=128,
        operators={OperatorId("o"): "map"},
        handles=[handle],
        committables=[],
    )
    taken = savepoint.Savepoint(
        id="s", job=_JOB, name="job", version="0.1.0", taken_ms=5, entry=completed
    )
    staging = staging_manifest.Manifest(
        of=staging_manifest.identity(_ROOT),
        staging="0123456789ab",
        schema=SCHEMA.serialize().to_pybytes(),
        event_time="at",
        files=[staging_manifest.StagedFile("00000-7.parquet", 3, 5, 9, b"1234")],
    )
    note = driver_note.DriverNote(
        owner="a", driver="d", process=msgspec.json.encode(this_process()), since_ms=5, job=_JOB
    )
    history = history_files.HistorySegment("job", "fine", 100, ["a", "b"], [1], [[1.0, None]])
    progress = messages.Progress(
        attempt=at,
        subtask=0,
        step_us=5,
        records_in={"o": 3},
        records_out={},
        watermark_ms={},
        busy_us=1,
        blocked_us=1,
        counters={},
        readings=[
            Reading("busy_ms", ("0",), 1.5),
            Reading("commit_duration_ms", ("o",), Accumulated(1, 5, 5, 5, {3: 1})),
        ],
    )
    failure = ErrorData.of(UserFunctionError("w", site=Site("f.py", 3), record="r", hint="h"))
    pack, text = msgspec.msgpack.encode, msgspec.json.encode
    batch = pa.record_batch({"v": [1, None, 3], "s": ["a", "b", None]}, schema=SCHEMA)
    channel = ChannelId(0, 0, 1)
    place = log_entries.Place(_JOB, "a", 1)
    return {
        "from a worker": [
            pack(control.Join(at, 1, "tcp://a:1", "1.0")),
            pack(control.Heartbeat(at)),
            pack(acknowledged),
            pack(progress),
            pack(messages.Failed(attempt=at, subtask=1, error=failure)),
        ],
        "from the driver": [
            pack(control.Welcome(at, ["tcp://a:1", "tcp://b:2"])),
            pack(messages.TriggerCheckpoint(attempt=at, checkpoint=CheckpointId(3), savepoint="/s")),
        ],
        "request": [
            command_messages.encoded_request(_JOB, TakeSavepoint(directory="/s")),
            command_messages.encoded_request(_JOB, ProfileSubtask(subtask=1, seconds=0.5)),
        ],
        "mailed request": [
            pack(mailbox.Request(id="0" * 32, timeout_s=30.0, request=b"request")),
        ],
        "answer": [
            pack(command_messages.Returned(STATUS)),
            pack(command_messages.Returned(METRICS)),
            pack(command_messages.Returned(HISTORY)),
            pack(command_messages.Returned(outline())),
            pack(command_messages.Refused(error=failure)),
        ],
        "error": [pack(failure)],
        "header": [wire.encode_header(b"t" * 16, at, channel, 7, wire.FrameKind.WATERMARK, -5)],
        "credit": [wire.encode_credit(b"t" * 16, at, 3, 2)],
        "hello": [framing.encode_hello(b"t" * 16, framing.Hello(at, 3))],
        "frames": [
            framing.head(bytes(wire.HEADER_BYTES), 5, framing.PayloadPlace.BEHIND) + b"bytes",
            framing.head(bytes(wire.HEADER_BYTES), 0, framing.PayloadPlace.NOWHERE),
        ],
        "batch": [batch.serialize().to_pybytes()],
        "log entry": [
            text(log_entries._Body(place=place, entry=entry)) for entry in (claim, completed)
        ],
        "savepoint": [text(taken)],
        "staging": [text(staging)],
        "history": [text(history)],
        "committable": [
            pack(
                committer.FileCommittable(
                    f"{committer.STAGING}/job/1/a.parquet", "part-a.parquet", 3, 9
                )
            )
        ],
        "spilled epoch": [
            spilling.SpilledEpoch(
                1, 3, StagedRowsFile("1/0123456789ab-0.arrow", 2, 9, b"sums"), 8
            ).encoded()
        ],
        "staged table rows": [
            staged_rows.StagedTableRows(
                job="j",
                operator="o",
                subtask=0,
                attempt=1,
                writer="0123456789ab",
                checkpoint=3,
                rows=5,
                staging_schema="public",
                stage="rheos_stage_0123456789ab_1_0123456789ab_0",
                schema="public",
                table="t",
                columns=["a"],
                key=[],
                spilled=StagedRowsFile("1/0123456789ab-0.arrow", 2, 9, b"sums"),
            ).encoded()
        ],
        "staged epoch": [
            staged_epochs.StagedEpoch("rheos-job-sink-1-0-a", "t", 1, 3, 0, 2, 9, b"sums").encoded()
        ],
        "driver's note": [driver_note.encode_note(note)],
        **{f"format {name}": _payloads(name) for name in EXAMPLES},
    }


TRUE = _true_messages()
