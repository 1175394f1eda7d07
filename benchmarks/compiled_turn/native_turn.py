"""A turn of a slot with few rows, as two native calls around the source's poll and the sink: a lower
bound for a compiled turn (`native_turn.c`). Prints its processor time like `benchmarks.turn`.

usage: python -m benchmarks.compiled_turn.native_turn [ROWS]
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyarrow.cffi import ffi

from benchmarks.turn import KEYS, PIECE, PIECES, TURN_US, FewRows, Nowhere
from rheos.cli.benchmarks.generated_rows import Measurements
from rheos.connectors.generator import generator
from rheos.core.connectors.contract import ReaderContext, SplitReader
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo

SLOTS = 2
GIVEN = pa.schema([("k", pa.int64()), ("v", pa.float64())])
MADE = pa.schema([*GIVEN, ("ts", pa.int64()), ("count", pa.int64()), ("sum", pa.float64())])


def native_module(folder: str) -> Any:
    """Compile the native calls into a folder, and return the module."""
    library = f"{folder}/native_turn.so"
    include = sysconfig.get_paths()["include"]
    source = Path(__file__).with_suffix(".c")
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", library]
    subprocess.run(command, check=True, timeout=300)
    spec = importlib.util.spec_from_file_location("native_turn", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Exchanged:
    """A batch that passes between Arrow and the native calls, through Arrow's C data interface."""

    def __init__(self) -> None:
        self._array = ffi.new("struct ArrowArray*")
        self.address = int(ffi.cast("uintptr_t", self._array))


class NativeSlots:
    """Slots that one thread steps, as in `benchmarks.turn`."""

    def __init__(self, native: Any, rows: int) -> None:
        self._native = native
        self._rows = rows
        self._clock = SimClock()
        self._watermark_ms = 0
        self.sink = Nowhere()
        self._given, self._made = _Exchanged(), _Exchanged()
        self._readers = self._opened()
        native.setup(SLOTS)

    def _opened(self) -> Sequence[SplitReader]:
        source = FewRows(generator(Measurements(KEYS), splits=SLOTS, schema=GIVEN), self._rows)
        ctx = ReaderContext(
            self._clock,
            SimIo(self._clock.monotonic_us, lambda: 1),
            count=lambda name, by: None,
            reject=lambda batch: None,
            wake=lambda: None,
        )
        return [source.open(split, None, ctx) for split in source.splits()]

    def turn(self) -> None:
        """Poll the sources, send the rows, receive what has come, and write it to the sink."""
        self._clock.advance(TURN_US)
        self._watermark_ms += 1
        for slot, reader in enumerate(self._readers):
            polled = reader.poll(self._rows)
            assert isinstance(polled, pa.RecordBatch)
            batch = polled.append_column("ts", polled.column(0))
            batch._export_to_c(self._given.address)
            self._native.send(slot, self._given.address, self._watermark_ms)
        for _ in range(2):  # Credits arrive after the rows.
            for slot in range(SLOTS):
                if self._native.receive(slot, self._made.address):
                    self.sink.write(pa.RecordBatch._import_from_c(self._made.address, MADE))


def measured(rows: int) -> float:
    """Return the processor time of a turn of one slot, in µs."""
    with tempfile.TemporaryDirectory(prefix="rheos-native-turn-") as folder:
        slots = NativeSlots(native_module(folder), rows)
        for _ in range(2 * PIECE):
            slots.turn()
        spent = []
        for _ in range(PIECES):
            began = time.process_time_ns()
            for _ in range(PIECE):
                slots.turn()
            spent.append((time.process_time_ns() - began) / 1000 / PIECE / SLOTS)
        turns = (2 + PIECES) * PIECE
        assert slots.sink.came == turns * SLOTS * rows, "all rows have come to the sink"
    return median(spent)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(f"{given:>6} rows, {SLOTS} slots: {measured(given):8.1f} us a turn of a slot")
