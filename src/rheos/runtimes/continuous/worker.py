"""What runs inside a Spark barrier task: one slot of the job, until the driver lets it go."""

from __future__ import annotations

import contextlib
import gc
import pickle
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import zmq
from pyspark import BarrierTaskContext

from rheos.errors import ConfigurationError, FencedError, InternalError, RheosError, TransportError
from rheos.graph.nodes import OwnSpec
from rheos.host.garbage import collect_seldom
from rheos.host.io import SystemClock, ThreadedIo
from rheos.host.scratch import scratch_folder
from rheos.host.socket_folder import in_folder
from rheos.host.stores import open_store
from rheos.plan.physical import PhysicalPlan
from rheos.protocol import control
from rheos.protocol.error_data import ErrorData
from rheos.protocol.ids import Attempt
from rheos.runtimes.continuous.control import Join, JoinRefused
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.continuous.security import Security
from rheos.runtimes.continuous.transport import ZmqTransport
from rheos.task.engine import Lifecycle, SubtaskEngine
from rheos.task.slot import Deployment, open_slot
from rheos.version import VERSION

_IO_THREADS = 2
"""For what readers, snapshots, notices and commits submit."""


@dataclass(frozen=True)
class SlotJob:
    """What the driver ships to every slot of an attempt."""

    deployment: Deployment
    checkpoint_dir: str
    driver: str
    """The address of the control channel."""
    heartbeat_timeout_ms: int
    token: bytes
    security: Security | None
    sockets: str | None
    """The folder of the job's sockets, where all run on one machine; else None, and a worker listens at
    the address that Spark advertises for its executor."""


class _Waker:
    """Wakes the main loop from any thread. The lock: a socket serves one thread at a time."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self) -> None:
        with self._lock:
            if self._closed:
                return
            # Where one wake-up waits already, it is enough.
            with contextlib.suppress(zmq.Again):
                self._socket.send(b"", zmq.NOBLOCK)

    def close(self) -> None:
        with self._lock:
            self._closed = True


def run(payload: bytes, nothing: Iterable[object]) -> Iterator[object]:
    """The body of the task. It yields nothing: results leave by sinks, reports by control."""
    slot = _unpacked(payload)
    context = BarrierTaskContext.get()
    subtask = context.partitionId()
    host = context.getTaskInfos()[subtask].address.rsplit(":", 1)[0]
    pa.set_cpu_count(1)
    deployment = slot.deployment
    transport = ZmqTransport(
        attempt=deployment.attempt,
        subtask=subtask,
        token=slot.token,
        schemas=deployment.plan.edge_schemas(),
        initial_credits=deployment.config.credits,
        parallelism=deployment.plan.parallelism,
        where=in_folder(slot.sockets) if slot.sockets else f"tcp://{host}:*",
        security=slot.security,
    )
    waker = _Waker(transport.waker())
    join = Join(deployment.attempt, subtask, transport.address, VERSION)
    client = ControlClient(
        transport.context,
        slot.driver,
        slot.token,
        join,
        slot.security,
        waker,
        slot.heartbeat_timeout_ms,
    )
    try:
        answer = client.start()
        if answer is None:
            raise TransportError("the driver was not heard of for the heartbeat timeout")
        if isinstance(answer, JoinRefused):
            raise FencedError(f"the driver refused subtask {subtask}: {answer.reason}")
        transport.connect(answer.addresses)
        with scratch_folder(deployment.state.directory) as scratch:
            _run_slot(slot, subtask, transport, client, waker, scratch)
    finally:
        waker.close()
        client.close()
        transport.close()
    yield from ()


def io_threads(plan: PhysicalPlan) -> int:
    """How many a slot has: each asynchronous operator has one more, as it may wait for long in it."""
    specs = [planned.spec for planned in plan.operators()]
    return _IO_THREADS + sum(isinstance(spec, OwnSpec) and spec.begins_chain for spec in specs)


def _unpacked(payload: bytes) -> SlotJob:
    try:
        slot = pickle.loads(payload)
    except Exception as error:
        raise ConfigurationError(
            f"a worker cannot load the program: {type(error).__name__}: {error}",
            hint="the workers need the program's modules and packages, in the driver's versions: "
            "ship them with --py-files or --archives, or install them there",
        ) from error
    assert isinstance(slot, SlotJob)
    return slot


def _run_slot(
    slot: SlotJob,
    subtask: int,
    transport: ZmqTransport,
    client: ControlClient,
    waker: _Waker,
    scratch: str,
) -> None:
    io = ThreadedIo(io_threads(slot.deployment.plan), waker)
    engine: SubtaskEngine | None = None
    try:
        engine = open_slot(
            slot.deployment,
            subtask,
            store=open_store(slot.checkpoint_dir),
            open_store=open_store,
            transport=transport,
            clock=SystemClock(),
            io=io,
            report=client.send,
            scratch=scratch,
        )
        # What the start made lives as long as the task: the collector need not look at it again.
        gc.freeze()
        collect_seldom()
        _loop(engine, transport, client)
        engine.report_progress()
    except Exception as error:
        reported = error if isinstance(error, RheosError) else InternalError.of(error)
        _report_failure(client, slot.deployment.attempt, subtask, reported)
        raise reported from error
    finally:
        io.close()
        if engine is not None:
            engine.close()


def _loop(engine: SubtaskEngine, transport: ZmqTransport, client: ControlClient) -> None:
    while True:
        for message in client.receive():
            engine.deliver(message)
        if engine.lifecycle is Lifecycle.DONE:
            return
        step = engine.step()
        if step.wake_after_us is not None:
            transport.wait(step.wake_after_us)


def _report_failure(client: ControlClient, attempt: Attempt, subtask: int, error: RheosError) -> None:
    client.send(control.Failed(attempt=attempt, subtask=subtask, error=ErrorData.of(error)))
