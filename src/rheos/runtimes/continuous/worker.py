"""The main loop of a Spark task: one slot of the job, until the driver releases it."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import zmq
from pyspark import BarrierTaskContext, TaskContext

from rheos.connectors.calls.outside_calls import works_for
from rheos.core.errors import ConfigurationError, FencedError, RheosError, TransportError, unexpected
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import Attempt
from rheos.core.protocol.stacks import MOST_MS, StackProfile
from rheos.core.safe_strings import named_error
from rheos.core.task.engine import Lifecycle, SubtaskEngine
from rheos.core.task.prepared_slot import PreparedSlot
from rheos.core.task.slot import Deployment, open_slot
from rheos.core.version import VERSION
from rheos.runtimes.continuous.control import AHEAD, Join, JoinRefused, Left, Welcome
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.continuous.framed_transport import CONNECTIONS_BY_PEER, FramedTransport
from rheos.runtimes.continuous.local_transport import LocalTransport
from rheos.runtimes.continuous.preparation import BegunSlot, Preparation
from rheos.runtimes.continuous.security import Security
from rheos.runtimes.continuous.zmq_transport import ZmqTransport
from rheos.runtimes.host import native_library
from rheos.runtimes.host.closing import close_logged
from rheos.runtimes.host.descriptors import allow_connections
from rheos.runtimes.host.io import SystemClock, ThreadedIo
from rheos.runtimes.host.log_capture import LogCapture
from rheos.runtimes.host.memory_tuning import collect_seldom, freed_memory_kept
from rheos.runtimes.host.process_metrics import OwnThreadTime, ProcessMetrics
from rheos.runtimes.host.scratch import scratch_folder
from rheos.runtimes.host.sockets import in_folder
from rheos.runtimes.host.stack_sampler import StackSampler
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.spark import job_files
from rheos.runtimes.spark.client_modules import import_ahead

_IO_THREADS = 2
"""Number of threads for the I/O of readers, snapshots, notifications and commits."""
_REPLACED_WAITS_S = 0.05
"""Seconds for which a replaced slot waits for them."""


@dataclass(frozen=True)
class SlotJob:
    """The description of an attempt that the driver sends to every slot."""

    deployment: Deployment
    """Deployment of the attempt. Under the number AHEAD, the slot restores checkpoints first, until the
    driver begins the attempt."""
    checkpoint_dir: str
    driver: str
    """Address of the control channel."""
    heartbeat_timeout_ms: int
    token: bytes
    barrier: bool
    """Whether the slot is a task of a barrier stage."""
    security: Security | None
    sockets: str | None
    """Folder of the job's sockets if all processes run on one machine. If None, a worker listens at the
    address that Spark advertises for its executor."""
    log_level: int | None
    """Minimum level of the worker's log records that go to the driver; None for none."""
    client_modules: tuple[str, ...] = ()
    """Modules that the slot imports before an attempt begins."""


def run(payload: bytes, nothing: Iterable[object]) -> Iterator[object]:
    """Run the body of the task. Yield nothing: rows leave by sinks, reports by control messages."""
    slot = _unpacked(payload)
    context = TaskContext.get()
    assert context is not None
    subtask = context.partitionId()
    host = _host(slot)
    pa.set_cpu_count(1)
    native_library.start()
    prepared: PreparedSlot | None = None
    if slot.deployment.attempt == AHEAD:
        begun = _prepared(slot, subtask)
        if begun is None:
            return
        prepared = begun.prepared
        attempt, restore = begun.begin.next, begun.begin.restore
        slot = replace(slot, deployment=replace(slot.deployment, attempt=attempt, restore=restore))
    zmq_context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
    transport = _transport(slot, subtask, host, zmq_context)
    waker = transport.waker()
    client = _client(slot, subtask, transport.address, zmq_context, waker)
    try:
        answer = client.start()
        if answer is None:
            raise TransportError("the driver has sent no message within the heartbeat timeout")
        if isinstance(answer, JoinRefused):
            raise FencedError(f"the driver rejected subtask {subtask}: {answer.reason}")
        transport.connect(answer.addresses)
        logs = _Logs(slot, subtask, client)
        with scratch_folder(slot.deployment.state.directory) as scratch, freed_memory_kept(), logs:
            _run_slot(slot, subtask, transport, client, waker, scratch, logs, prepared)
    finally:
        transport.close()
        client.close()
        zmq_context.destroy(linger=0)
    yield from ()


def _prepared(slot: SlotJob, subtask: int) -> BegunSlot | None:
    """Restore checkpoints until the driver begins the attempt. Return None if it releases the slot."""
    import_ahead(slot.client_modules)
    awake = threading.Event()
    zmq_context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
    client = _client(slot, subtask, "", zmq_context, awake.set)
    deployment = _with_local_files(slot.deployment)
    try:
        if isinstance(client.start(), Welcome):
            store = open_store(slot.checkpoint_dir)
            preparation = Preparation(deployment, subtask, store, client, awake)
            return preparation.run(deployment.restore)
        return None
    finally:
        client.close()
        zmq_context.destroy(linger=0)


def _client(
    slot: SlotJob,
    subtask: int,
    address: str,
    zmq_context: zmq.Context[zmq.Socket[bytes]],
    wake: Callable[[], None],
) -> ControlClient:
    """Return the slot's end of the control channel, before it joins. `address` is that of its
    transport, or an empty string before a transport exists."""
    attempt = slot.deployment.attempt
    join = Join(attempt, subtask, address, VERSION, os.getpid(), socket.gethostname())
    return ControlClient(
        zmq_context,
        slot.driver,
        slot.token,
        join,
        slot.security,
        wake,
        slot.heartbeat_timeout_ms,
    )


def _with_local_files(deployment: Deployment) -> Deployment:
    """Return the deployment with the job's files as this worker has them."""
    plan = deployment.plan
    return replace(deployment, plan=replace(plan, context=job_files.local(plan.context)))


def prepare(payload: bytes, nothing: Iterable[object]) -> Iterator[object]:
    """Import everything that the job needs on this worker, without running it. Yield nothing."""
    import_ahead(_unpacked(payload).client_modules)
    yield from ()


def _host(slot: SlotJob) -> str:
    """Return the address of this machine for other slots.

    In a barrier stage, Spark advertises one for each executor. In an ordinary stage, the result is the
    address from which this machine reaches the driver.
    """
    if slot.barrier:
        context = BarrierTaskContext.get()
        address: str = context.getTaskInfos()[context.partitionId()].address
        return address.rsplit(":", 1)[0]
    if slot.sockets:
        return "127.0.0.1"
    driver, _, port = slot.driver.removeprefix("tcp://").rpartition(":")
    found = socket.getaddrinfo(driver.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    family, kind, _, _, place = found[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)  # Sends nothing: it only selects the route.
        host = str(probe.getsockname()[0])
    return f"[{host}]" if family == socket.AF_INET6 else host


def _transport(
    slot: SlotJob, subtask: int, host: str, zmq_context: zmq.Context[zmq.Socket[bytes]]
) -> FramedTransport:
    """Return the slot's transport, which already listens."""
    deployment = slot.deployment
    allow_connections(CONNECTIONS_BY_PEER * (deployment.plan.parallelism - 1))
    if slot.sockets and slot.security is None:
        return LocalTransport(
            attempt=deployment.attempt,
            subtask=subtask,
            token=slot.token,
            schemas=deployment.plan.edge_schemas(),
            initial_credits=deployment.config.credits,
            parallelism=deployment.plan.parallelism,
            path=in_folder(slot.sockets).removeprefix("ipc://"),
        )
    return ZmqTransport(
        zmq_context,
        attempt=deployment.attempt,
        subtask=subtask,
        token=slot.token,
        schemas=deployment.plan.edge_schemas(),
        initial_credits=deployment.config.credits,
        parallelism=deployment.plan.parallelism,
        where=in_folder(slot.sockets) if slot.sockets else f"tcp://{host}:*",
        security=slot.security,
    )


def io_threads(plan: PhysicalPlan) -> int:
    """Return the number of I/O threads of a slot. Each asynchronous operator and each sink adds one,
    which it may block for long. So a sink whose target is down delays no snapshots or other sinks."""
    return _IO_THREADS + sum(
        planned.is_asynchronous or isinstance(planned.spec, SinkSpec) for planned in plan.operators()
    )


def _unpacked(payload: bytes) -> SlotJob:
    try:
        slot = pickle.loads(payload)
    except Exception as error:
        raise ConfigurationError(
            f"a worker cannot load the program: {named_error(error)}",
            hint="the workers need the program's modules and packages, in the driver's versions: "
            "ship them with --py-files or --archives, or install them there",
        ) from error
    assert isinstance(slot, SlotJob)
    return slot


def _run_slot(
    slot: SlotJob,
    subtask: int,
    transport: FramedTransport,
    client: ControlClient,
    waker: Callable[[], None],
    scratch: str,
    logs: _Logs,
    prepared: PreparedSlot | None,
) -> None:
    deployment = _with_local_files(slot.deployment)
    io = ThreadedIo(io_threads(deployment.plan), waker)
    engine: SubtaskEngine | None = None
    process = ProcessMetrics()
    thread = OwnThreadTime()
    samples = _Samples(subtask, waker)
    replaced = was_stopped = False
    try:
        engine = open_slot(
            deployment,
            subtask,
            store=open_store(slot.checkpoint_dir),
            open_store=open_store,
            transport=transport,
            clock=SystemClock(),
            io=io,
            report=client.send,
            scratch=scratch,
            process=process,
            thread=thread,
            processor_ns=time.thread_time_ns,
            works_for=works_for,
            prepared=prepared,
        )
        # Objects made at the start live as long as the task, so the collector need not visit them
        # again.
        gc.freeze()
        collect_seldom()
        replaced = was_stopped = _loop(engine, transport, client, samples, logs)
        engine.report_progress()
    except Exception as error:
        replaced = isinstance(error, TransportError)  # Another slot has gone.
        reported = error if isinstance(error, RheosError) else unexpected(error)
        logs.send()  # The records that led to the error precede it.
        _report_failure(client, deployment.attempt, subtask, reported)
        raise reported from error
    finally:
        works_for(None)
        process.close()
        thread.close()
        samples.close()
        has_closed = _leave(io, engine, replaced)
    if has_closed and was_stopped:
        client.send(Left(deployment.attempt, subtask))  # The end of its process takes longer.


def _leave(io: ThreadedIo, engine: SubtaskEngine | None, replaced: bool) -> bool:
    """End the slot's pending work, then close its operators. Return whether they are closed now.

    The next attempt cannot start before this slot is free. So a replaced slot does not wait for a
    snapshot or a commit: they end by themselves, or with the process, as they do in a frozen worker.
    They may use the operators, so these are closed last.
    """
    if io.close(_REPLACED_WAITS_S if replaced else None):
        if engine is not None:
            close_logged(engine.close)
        return True

    def close() -> None:
        io.close()
        if engine is not None:
            close_logged(engine.close)

    threading.Thread(target=close, name="rheos-leaving", daemon=True).start()
    return False


class _Samples:
    """The sampling of the stacks of the slot's own thread, at the driver's request."""

    def __init__(self, subtask: int, waker: Callable[[], None]) -> None:
        self._subtask = subtask
        self._waker = waker
        self._sampler = StackSampler(threading.get_ident(), _loop.__code__)
        self._found: deque[control.StacksSampled] = deque()

    def begin(self, message: control.SampleStacks) -> None:
        """Begin to sample. The driver requests only one profile at a time."""

        def done(profile: StackProfile) -> None:
            answer = control.StacksSampled(
                attempt=message.attempt, request=message.request, profile=profile
            )
            self._found.append(answer)
            self._waker()

        for_ms, every_ms = min(message.for_ms, MOST_MS), max(message.every_ms, 1)
        self._sampler.begin(self._subtask, for_ms, every_ms, done)

    def found(self) -> Iterator[control.StacksSampled]:
        while self._found:
            yield self._found.popleft()

    def close(self) -> None:
        self._sampler.close()


class _Logs:
    """The log records of this process, sent while the slot runs, unless the job has no log."""

    def __init__(self, slot: SlotJob, subtask: int, client: ControlClient) -> None:
        self._attempt = slot.deployment.attempt
        self._subtask = subtask
        self._client = client
        self._capture = None if slot.log_level is None else LogCapture(slot.log_level)

    def __enter__(self) -> None:
        if self._capture is not None:
            self._capture.open()

    def __exit__(self, *of: object) -> None:
        if self._capture is not None:
            self._capture.close()

    def send_if_due(self) -> None:
        if self._capture is not None and self._capture.is_due():
            self.send()

    def send(self) -> None:
        """Send the captured records. Only the slot's own thread may call it."""
        if self._capture is None:
            return
        lines, dropped = self._capture.take()
        if lines or dropped:
            self._client.send(
                control.Logged(
                    attempt=self._attempt, subtask=self._subtask, lines=lines, dropped=dropped
                )
            )


def _loop(
    engine: SubtaskEngine,
    transport: FramedTransport,
    client: ControlClient,
    samples: _Samples,
    logs: _Logs,
) -> bool:
    """Run the slot until it is to leave. Return whether the attempt is replaced."""
    while True:
        for found in samples.found():
            client.send(found)
        logs.send_if_due()
        for message in client.receive():
            if isinstance(message, control.SampleStacks):
                samples.begin(message)
            engine.deliver(message)
            if engine.lifecycle is Lifecycle.DONE:
                logs.send()
                return isinstance(message, control.Cancel) and message.replaced
        step = engine.step()
        if step.wake_after_us is not None:
            transport.wait(step.wake_after_us)


def _report_failure(client: ControlClient, attempt: Attempt, subtask: int, error: RheosError) -> None:
    client.send(control.Failed(attempt=attempt, subtask=subtask, error=ErrorData.of(error)))
