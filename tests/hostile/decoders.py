"""All decoders of what comes from a socket, each as a function that takes any bytes.

It returns what was decoded, or None where the decoder has refused the bytes by its own error. Whatever
else happens is a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from rheos.control.commands import answer_decoder, request_decoder
from rheos.errors import TransportError
from rheos.protocol import error_data, wire
from rheos.protocol.decoding import MalformedError
from rheos.runtimes.continuous import control

SCHEMA = pa.schema([("v", pa.int64()), ("s", pa.string())])


def _bounded(decode: Callable[[bytes], Any], refusal: type[Exception]) -> Callable[[bytes], Any]:
    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except refusal:
            return None

    return decoded


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "from a worker": _bounded(control.from_worker.decode, MalformedError),
    "from the driver": _bounded(control.from_driver.decode, MalformedError),
    "request": _bounded(request_decoder.decode, MalformedError),
    "answer": _bounded(answer_decoder.decode, MalformedError),
    "error": _bounded(lambda data: error_data.decoder.decode(data).error(), MalformedError),
    "header": _bounded(wire.decode_header, TransportError),
    "credit": _bounded(wire.decode_credit, TransportError),
    "batch": _bounded(lambda data: wire.decode_batch(memoryview(data), SCHEMA), TransportError),
}
