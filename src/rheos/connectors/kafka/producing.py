"""A producer of encoded records.

`produce` is a call for each record, of about a microsecond. The client's `produce_batch` takes a dict
for each record, is slower, and does not support headers. `produce_unreported` is a call for each batch,
without a delivery report for single records.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.kafka.arrow_producing import ArrowProducing
from rheos.connectors.kafka.client_options import ANSWER_S, ClientOptions, Value, client
from rheos.connectors.kafka.errors import is_refusal, kafka_error, lacks_coordinator
from rheos.connectors.kafka.records import records
from rheos.core.errors import RheosError, UnavailableError
from rheos.core.protocol.elements import Batch

OWNED = {
    "transactional.id": "Rheos creates one for each writer; id_prefix= sets their prefix",
    "group.id": "Rheos creates one for each writer; id_prefix= sets their prefix",
    "isolation.level": "leave it out",
    "enable.auto.commit": "leave it out",
    "enable.idempotence": "leave it out: it is always on",
    "enable.gapless.guarantee": "leave it out",
    "acks": "leave it out: all in-sync replicas acknowledge each record",
    "request.required.acks": "leave it out: all in-sync replicas acknowledge each record",
    "delivery.report.only.error": "leave it out",
    "on_delivery": "leave it out",
    "dr_cb": "leave it out",
    "dr_msg_cb": "leave it out",
}

_DEFAULTS: dict[str, Value] = {
    "partitioner": "murmur2_random",  # as Kafka's own clients do, so that keys keep their partitions
    "queue.buffering.max.kbytes": 64 << 10,
    "queue.buffering.max.messages": 200_000,
}

_TRANSACTION_TIMEOUT_MS = 300_000
_AT_ONCE = 512
_GIVE_WAY_S = 1e-6
"""Pause with which the thread that writes a transaction yields the interpreter to the slot's thread.
Otherwise the slot's thread would regain the interpreter only after the switch interval of 5 ms;
measurements showed a quarter of its speed."""
_WHEN_FULL_S = 0.005
CLOSED_WITHIN_S = 5.0
"""Limit of the client for aborting an open transaction, in seconds."""
_REPORTED_S = 0.5
_SLICE_S = 1.0
"""Limit of a single client call, in seconds. A call that times out is continued by the next."""
_FENCED_AGAIN_S = 0.1


class Producing:
    """Producer for one topic. Raises RheosError if the client cannot be created."""

    def __init__(
        self,
        options: ClientOptions,
        topic: str,
        transactional_id: str = "",
        stalled_s: float = ANSWER_S,
    ) -> None:
        """Create a producer. Brokers that accept nothing for `stalled_s` seconds are unavailable."""
        self._stalled_s = stalled_s
        self._options = options
        self._topic = topic
        self._transactional = bool(transactional_id)
        self.refused: RheosError | None = None
        """Error of the first record that was not delivered, or of brokers that refuse the client."""
        self.brokers_away = 0
        """Number of times a broker was down or did not answer."""
        own: dict[str, Value] = {"enable_idempotence": True, "delivery_report_only_error": True}
        defaults = dict(_DEFAULTS)
        if transactional_id:
            own["transactional_id"] = transactional_id
            defaults["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
        config = {**defaults, **options.config(transactional_id or f"rheos-{topic}", **own)}
        if transactional_id:  # the client refuses a socket.timeout.ms larger than it
            config["socket.timeout.ms"] = min(
                int(config["socket.timeout.ms"]), int(config["transaction.timeout.ms"])
            )
        try:
            self.client: Any = client().Producer(
                {**config, "on_delivery": self._not_delivered, "error_cb": self._on_error}
            )
        except client().KafkaException as error:
            raise kafka_error(error, f"the topic {topic!r} cannot be written", options) from None
        self._unreported = ArrowProducing.of(self.client, topic) if transactional_id else None

    def produce_unreported(self, batch: Batch) -> None:
        """Queue records like `produce`, much faster if the client supports it, but without delivery
        reports. It is for transactions, whose commit fails if a record was not delivered."""
        if self._unreported is None or not self._unreported.takes(batch.schema):
            self.produce(batch)
            return
        stall = self._stall()
        while batch.num_rows:
            queued = self._unreported.produce(batch)
            batch = batch.slice(queued)
            self.client.poll(_WHEN_FULL_S if batch.num_rows else 0)
            stall.check(queued > 0)

    def produce(self, batch: Batch) -> None:
        """Queue records; waits if the queue is full. Raises the client's errors."""
        for start in range(0, batch.num_rows, _AT_ONCE):
            self._produce(batch.slice(start, _AT_ONCE))
            self.client.poll(0)
            if self._transactional:
                time.sleep(_GIVE_WAY_S)

    def _produce(self, batch: Batch) -> None:
        topic, produce = self._topic, self.client.produce
        stall = self._stall()
        plain = batch.schema.names in (["value"], ["value", "key"])
        for value, key, partition, timestamp, headers in records(batch):
            while True:
                try:
                    if plain:
                        produce(topic, value, key)
                    else:
                        produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
                except BufferError:
                    self.client.poll(_WHEN_FULL_S)
                    stall.check(False)
                    continue
                stall.progressed()
                break

    def fence(self, within_s: float) -> None:
        """Abort open transactions of other producers with this transactional id, and fence those
        producers. Raises the client's error, or the brokers' refusal."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                self.client.init_transactions(_SLICE_S)
                return
            except client().KafkaException as error:
                self.client.poll(0)  # Runs the callback that knows why the call timed out.
                if self.refused is not None:
                    raise self.refused from None
                timed_out = error.args[0].code() == client().KafkaError._TIMED_OUT
                if not (timed_out or lacks_coordinator(error)) or time.monotonic() > deadline:
                    raise
                time.sleep(_FENCED_AGAIN_S)

    def deliver(self, progressed: Progressed = lambda: None) -> None:
        """Wait until the brokers have taken all records. `progressed` is called as they take some.

        Raises the first record's refusal; UnavailableError if the brokers take none for `stalled_s`.
        """
        stall = self._stall()
        waiting = len(self.client)
        while waiting:
            left = int(self.client.flush(_SLICE_S))
            stall.check(left < waiting)
            if left < waiting:
                progressed()
            waiting = left
        stall.check(True)

    def _stall(self) -> _DeliveryStall:
        return _DeliveryStall(self, self._stalled_s, f"the topic {self._topic!r} cannot be written")

    def hear_reports(self) -> None:
        """Wait briefly for delivery reports after the client has raised an error, because the reports
        may name the record."""
        with contextlib.suppress(Exception):  # a fenced producer fails again here
            self.client.flush(_REPORTED_S)

    def close(self) -> None:
        """Drop records that are queued but not delivered, and abort an open transaction."""
        producer, self.client = self.client, None
        if producer is None:
            return
        with contextlib.suppress(Exception):
            producer.purge()
        if self._transactional:
            # Otherwise readers of committed records would wait until the transaction times out. Without
            # a transaction, or with a fenced producer, this fails at once. (The client's own `close`
            # would log a warning then.)
            with contextlib.suppress(Exception):
                producer.abort_transaction(CLOSED_WITHIN_S)

    def _not_delivered(self, error: Any, message: Any) -> None:
        if self.refused is None and error is not None:
            key = message.key()
            record = f"for partition {message.partition()}, {_length(message.value())} bytes"
            self.refused = kafka_error(
                error, f"the topic {self._topic!r} has rejected a record", self._options, record=record
            )
            self.refused.key = None if key is None else repr(key)[:200]

    def _on_error(self, error: Any) -> None:
        self.brokers_away += 1
        if self.refused is None and is_refusal(error):
            doing = f"the topic {self._topic!r} cannot be written"
            self.refused = kafka_error(error, doing, self._options)


class _DeliveryStall:
    """The time during which brokers have accepted no record although some are waiting."""

    def __init__(self, producing: Producing, limit_s: float, doing: str) -> None:
        self._producing = producing
        self._limit_s = limit_s
        self._doing = doing
        self._since_s = time.monotonic()

    def progressed(self) -> None:
        self._since_s = time.monotonic()

    def check(self, progressed: bool) -> None:
        """Raise the refusal of a record; UnavailableError if there was no progress for too long."""
        if self._producing.refused is not None:
            raise self._producing.refused from None
        if progressed:
            self.progressed()
        elif time.monotonic() - self._since_s > self._limit_s:
            raise UnavailableError(
                f"{self._doing}: the brokers have accepted no record for {self._limit_s:g} s",
                hint="check that the brokers are up and reachable, and have free disk space",
            )


def _length(value: bytes | None) -> int:
    return len(value or b"")
