"""The measurement of a sample of a job: what `rheos plan` stores, and computes its plans from."""

from __future__ import annotations

import msgspec

from rheos.core.errors import ConfigurationError

MAX_FILE_BYTES = 16 * 2**20
"""Maximum size of a file with a measurement. A real one has a few kilobytes."""


class CostedChain(msgspec.Struct, frozen=True):
    """A chain of the job's plan, with everything that limits its parallelism."""

    id: int
    operators: tuple[str, ...]
    """Names of its operators, the head first."""
    site: str
    """Line of the program that added the head."""
    keyed: bool = False
    """Whether each row belongs to the slot of its key group."""
    compiled: bool = False
    """Whether large batches are processed by compiled functions, and small ones by interpreted ones."""
    widest: int | None = None
    """Maximum number of slots that receive rows; None: all."""
    splits: int | None = None
    """Number of splits of a source, which does not grow with the parallelism; None: unlimited."""

    @property
    def name(self) -> str:
        return " -> ".join(self.operators)


class ExchangedEdge(msgspec.Struct, frozen=True):
    """A connection of two chains."""

    id: int
    source: int
    target: int
    remote: bool
    """Whether rows go to all slots, and not only to the next chain of the same slot."""
    broadcast: bool = False
    """Whether each row goes to every slot."""
    frame_bytes: float = 0.0
    """Bytes of a batch between slots in addition to its rows."""


class ChainLoad(msgspec.Struct, frozen=True):
    """Work of a chain in a phase, over all slots."""

    chain: int
    rows: float
    """Rows that the chain received or, for a source, emitted."""
    cpu_us: float
    """Processor time in µs, including its share of the worker's other threads."""


class EdgeLoad(msgspec.Struct, frozen=True):
    """Rows that passed an edge in a phase, over all slots."""

    edge: int
    rows: float
    batches: float
    size_bytes: float


class Phase(msgspec.Struct, frozen=True):
    """A part of the sample, at one parallelism and one maximum batch size."""

    parallelism: int
    batch_rows: int
    seconds: float
    source_rows: float
    """Rows that all sources emitted."""
    chains: tuple[ChainLoad, ...]
    edges: tuple[EdgeLoad, ...]
    memory_bytes: float = 0.0
    """Resident memory of the largest worker at the end."""
    total_rows: float = 0.0
    """Rows that all sources emitted since the job's start, also before the phase was measured."""
    cpu_us: float = 0.0
    """Processor time in µs of all workers, also of those without work."""
    core_wait: float = 0.0
    """Share of the slots' working time in which they waited for a core."""
    interpreted: bool = False
    """Whether functions were interpreted that are otherwise compiled."""
    latency_ms: float | None = None
    """Latency that 99 % of the latency markers stayed below; None: without markers."""
    parts: tuple[Phase, ...] = ()
    """The same measurements of the phase's first and second half. They show how much it varied."""


class KeyCurve(msgspec.Struct, frozen=True):
    """Number of different keys on a keyed edge after a number of rows."""

    edge: int
    rows: tuple[float, ...]
    """Numbers of rows of all sources, in ascending order."""
    keys: tuple[float, ...]
    """Number of different keys for each of them."""


class OperatorState(msgspec.Struct, frozen=True):
    """State of an operator at the end of the sample, over all slots."""

    operator: str
    size_bytes: float
    """Size in a checkpoint."""
    keys: float | None = None
    growth_bytes_per_row: float = 0.0
    """Growth of the size per row of the sources, in addition to the growth with the number of keys."""
    lifetime_ms: int | None = None
    """Time after which the operator drops state, such as a time to live; None: never."""
    chain: int | None = None
    """Chain of the operator; None: unknown."""
    bytes_per_key: float = 0.0
    """Size of the state of a key, without a lifetime."""
    entry_bytes: float = 0.0
    """Size of one row of the state; 0: unknown."""
    pane_ms: int | None = None
    """With a lifetime: time in which all rows of a key share one row of the state. None: each input
    row has its own."""


class Measurement(msgspec.Struct, frozen=True):
    """Everything that a plan is computed from. It is stored as JSON."""

    job: str
    chains: tuple[CostedChain, ...]
    edges: tuple[ExchangedEdge, ...]
    phases: tuple[Phase, ...]
    """Phases at full load."""
    states: tuple[OperatorState, ...] = ()
    paced_phases: tuple[Phase, ...] = ()
    """Phases at a low rate, in which slots wait for rows most of the time."""
    state_phase: Phase | None = None
    """The phase with checkpoints, which measured state. Its cost includes that of counting keys."""
    key_curves: tuple[KeyCurve, ...] = ()
    """Numbers of keys of the keyed edges, as far as they were measured."""
    heaviest_key_share: float | None = None
    """Largest share of the rows of a keyed edge that have the same key; None: not measured."""
    max_parallelism: int = 128
    batch_rows: int = 16_384
    """Maximum rows of a batch in the job's settings."""
    buffer_timeout_us: int | None = 10_000
    """Maximum time that a row waits for others in a slot; None: until a buffer is full."""
    checkpoint_interval_ms: int | None = 10_000
    retained_checkpoints: int = 2
    state_on_disk: bool = False
    """Whether the state backend keeps state on disk."""
    state_memory_bytes: int | None = None
    """Maximum memory of a slot's state on disk, if the settings specify it."""
    state_error: float | None = None
    """Relative error of a prediction of the final state from the first half of the sample; None: not
    measured."""
    state_rows: float = 0.0
    """Rows that the sources had emitted when the final state was measured."""
    worker_memory_bytes: float = 0.0
    """Memory of a worker at full load, without its state."""
    waiting_memory_bytes: float = 0.0
    """The same of a worker that waits for rows most of the time; 0: not measured."""
    memory_per_state_byte: float = 2.0
    """Memory of a byte of state, in relation to its size in a checkpoint."""
    written_share: float = 1.0
    """Share of the state that a checkpoint writes anew."""
    sync_us_per_mb: float = 0.0
    """Pause of a slot for a checkpoint, in µs per MB of its state."""

    @property
    def most_slots(self) -> int:
        """Return the largest parallelism of the sample."""
        return max(phase.parallelism for phase in self.phases)


def encode_measurement(measurement: Measurement) -> bytes:
    """Return the measurement as JSON."""
    return msgspec.json.format(msgspec.json.encode(measurement), indent=2) + b"\n"


def decode_measurement(data: bytes, file: str) -> Measurement:
    """Return the measurement of a file. Raise ConfigurationError if the file contains none."""
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{file} is larger than a measurement: {len(data):,} bytes")
    try:
        measurement = msgspec.json.decode(data, type=Measurement)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"{file} is not a measurement of rheos plan: {error}",
            hint="write one with rheos plan job.py --save FILE",
        ) from None
    problem = _problem(measurement)
    if problem is not None:
        raise ConfigurationError(
            f"{file} is not a valid measurement: {problem}",
            hint="write one with rheos plan job.py --save FILE",
        )
    return measurement


def _problem(measurement: Measurement) -> str | None:
    chains = {chain.id for chain in measurement.chains}
    edges = {edge.id for edge in measurement.edges}
    if not measurement.phases:
        return "it has no phase"
    if any(len(curve.rows) != len(curve.keys) for curve in measurement.key_curves):
        return "a curve of keys has rows without keys"
    if any(edge.source not in chains or edge.target not in chains for edge in measurement.edges):
        return "an edge leads to an unknown chain"
    for phase in (*measurement.phases, *measurement.paced_phases):
        if phase.source_rows <= 0 or phase.seconds <= 0:
            return "a phase has no rows"
        if phase.parallelism < 1 or phase.batch_rows < 1:
            return "a phase has no slot or no batch"
        if {load.chain for load in phase.chains} != chains or {
            load.edge for load in phase.edges
        } != edges:
            return "a phase does not have every chain and edge"
    return None
