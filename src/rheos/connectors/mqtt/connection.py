"""Connection to a broker for one thread at a time, by MQTT 5.

The client's own threads and its own reconnection are not used. `step` reads and writes what it can at
the moment: between two steps nothing is read, so a slow job slows the broker down.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.mqtt.client_options import MqttOptions, client, refusal, unavailable
from rheos.connectors.tls_files import tls_context
from rheos.core.errors import ConfigurationError, RheosError, UnavailableError

LOGGER = logging.getLogger("rheos.mqtt")

CONNECT = OutsideCall(
    server="MQTT",
    call="source and sink: connecting",
    limit_s=15.0,
    limit="TCP, TLS and the broker's answer have 5 s each",
    then="the source tries again, and the broker sends what was not acknowledged again. After 1 s the "
    "sink stages rows next to the checkpoints, and tries to deliver them every second; rows, "
    "checkpoints and other sinks continue",
)
ANSWERS = OutsideCall(
    server="MQTT",
    call="source and sink: the broker's answers",
    limit_s=5.0,
    limit="any answer restarts it. A source without messages sends a ping every 10 s",
    then="the connection is closed, and the source or the sink opens another one",
)
_KEEP_ALIVE_S = 10
_STEP_PACKETS = 1024
_MOST_RECEIVED = 65_535
"""Maximum number of messages without an acknowledgement: packet ids have 16 bits."""
_REFUSED = 0x80


@dataclass(frozen=True, slots=True)
class MqttMessage:
    """A message that the broker has sent."""

    packet: int
    """Packet id, by which it is acknowledged; 0 for a message of QoS 0."""
    again: bool
    """Whether the broker has sent it before."""
    topic: str
    payload: bytes
    retained: bool


@dataclass(frozen=True)
class BrokerLimits:
    """Limits of a broker for what a client sends."""

    in_flight: int
    """Maximum number of messages without an answer."""
    packet_bytes: int | None
    retains: bool
    """Whether it keeps retained messages."""


class MqttConnection:
    """An open connection. All methods are for one thread.

    Args:
        doing: begins the messages of errors: "the topic 'a' cannot be read".
        client_id: id of the client; "" lets the broker choose one.
        keeps_s: seconds for which the broker keeps the session of a client that is gone; 0 for a
            connection without a session, on which the client need not take steps while it is idle.
    """

    def __init__(self, options: MqttOptions, doing: str, client_id: str = "", keeps_s: int = 0) -> None:
        self._options = options
        self._doing = doing
        self._client_id = client_id
        self._keeps_s = keeps_s
        self._mqtt: Any = None
        self._calls = BoundedCalls()
        self._progress = 0
        """Number of packets that were received."""
        self._lost: RheosError | None = None
        self._connected: tuple[bool, BrokerLimits] | None = None
        self._answers: dict[int, Any] = {}
        """Reason codes of the answers to subscriptions and messages, by packet id."""
        self.arrived: list[MqttMessage] = []
        """Messages that the last steps have received. The caller takes them out."""

    def open(self) -> bool:
        """Connect. Returns whether the broker has kept the session of the client.

        Raises:
            ConfigurationError: The broker refuses the client, or a certificate is invalid.
            UnavailableError: The broker does not answer.
        """
        try:
            self._calls.run(
                f"MQTT at {self._options.address}",
                CONNECT.limit_s,
                lambda progressed: self._connect(),
                release=self.close,
            )
        except AbandonedCallError as error:
            raise UnavailableError(f"{self._doing}: {error.what}", hint=error.hint) from None
        finally:
            self._calls.close()
        self.wait(lambda: self._connected is not None)
        assert self._connected is not None
        return self._connected[0]

    @property
    def limits(self) -> BrokerLimits:
        """Limits of the broker, once the connection is open."""
        assert self._connected is not None
        return self._connected[1]

    def step(self, wait_s: float) -> None:
        """Read and write what is possible now, or after waiting for packets.

        Args:
            wait_s: how long to wait if nothing can be read.

        Raises:
            RheosError: The connection is lost.
        """
        mqtt = self._mqtt
        sock = mqtt.socket()
        if sock is not None:
            with selectors.DefaultSelector() as selector:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if mqtt.want_write() else 0)
                selector.register(sock, events)
                selector.select(wait_s)
            # Encrypted bytes may wait in the library, so it reads in any case.
            for _ in range(_STEP_PACKETS):
                before = self._progress
                self._guarded(mqtt.loop_read)
                if self._lost is not None or self._progress == before:
                    break
        self.keep_alive()

    def keep_alive(self) -> None:
        """Write what is possible, and send a ping if one is due. Raises RheosError as `step` does."""
        mqtt = self._mqtt
        if mqtt.want_write():
            self._guarded(mqtt.loop_write)
        self._guarded(mqtt.loop_misc)
        if self._lost is not None:
            raise self._lost
        if mqtt.socket() is None:
            raise unavailable(self._doing, self._options, "the connection is lost")

    def wait(self, reached: Callable[[], bool]) -> None:
        """Take steps until a condition holds. Raises UnavailableError if nothing arrives for some
        seconds."""
        progress, since_s = self._progress, time.monotonic()
        while not reached():
            self.step(0.1)
            if progress != self._progress:
                progress, since_s = self._progress, time.monotonic()
            elif time.monotonic() - since_s > ANSWERS.limit_s and not reached():
                raise unavailable(self._doing, self._options, f"no answer for {ANSWERS.limit_s:g} s")

    def subscribe(self, filters: tuple[str, ...], retained: int) -> None:
        """Subscribe to topics with QoS 1.

        Args:
            filters: filters of topics.
            retained: MQTT's option for retained messages: 1 sends them for a new subscription, 2 never.

        Raises:
            RheosError: The broker refuses that.
        """
        mqtt = client()
        options = mqtt.SubscribeOptions(qos=1, retainHandling=retained)
        result, packet = self._mqtt.subscribe([(each, options) for each in filters])
        if result != mqtt.MQTT_ERR_SUCCESS:
            raise unavailable(self._doing, self._options, mqtt.error_string(result))
        self.wait(lambda: packet in self._answers)
        answers = self._answers.pop(packet)
        for topics, reason in zip(filters, answers, strict=False):
            if reason.value >= _REFUSED:
                raise refusal(reason.value, f"{topics}: {reason}", self._doing, self._options)
            if reason.value != 1:
                raise ConfigurationError(
                    f"{self._doing}, at {self._options.address}: the broker does not offer QoS 1 for "
                    f"{topics!r}, so messages could be lost",
                    hint="allow QoS 1 in the broker's configuration",
                )

    def acknowledge(self, packet: int) -> None:
        """Acknowledge a message."""
        self._guarded(lambda: self._mqtt.ack(packet, 1))

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> int:
        """Send a message with QoS 1. Returns its packet id, for `answer`."""
        sent = self._mqtt.publish(topic, payload, qos=1, retain=retain)
        if sent.rc != client().MQTT_ERR_SUCCESS:
            raise unavailable(self._doing, self._options, client().error_string(sent.rc))
        packet: int = sent.mid
        return packet

    def answer(self, packet: int) -> Any:
        """Return the broker's reason code for a message, once; None while there is no answer."""
        return self._answers.pop(packet, None)

    def close(self) -> None:
        """Write what is possible now, and close the connection."""
        mqtt, self._mqtt = self._mqtt, None
        if mqtt is not None:
            with contextlib.suppress(Exception):
                mqtt.disconnect()
            with contextlib.suppress(Exception):
                mqtt.loop_write()
            if (sock := mqtt.socket()) is not None:
                sock.close()

    def _connect(self) -> None:
        mqtt = client()
        made = self._mqtt = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=mqtt.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        made.connect_timeout = ANSWERS.limit_s
        made.max_inflight_messages_set(_MOST_RECEIVED)
        made.on_connect = self._on_connect
        made.on_disconnect = self._on_disconnect
        made.on_message = self._on_message
        made.on_subscribe = self._on_subscribe
        made.on_publish = self._on_publish
        if self._options.has_tls:
            made.tls_set_context(
                tls_context(dict(self._options.options), "MQTT", self._options.address)
            )
        if self._options.login is not None:
            made.username_pw_set(*self._options.login)
        properties = mqtt.Properties(mqtt.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = self._keeps_s
        try:
            made.connect(
                self._options.host,
                self._options.port,
                _KEEP_ALIVE_S if self._keeps_s else 0,
                clean_start=not self._keeps_s,
                properties=properties,
            )
        except (OSError, ValueError) as error:
            text = str(error) or type(error).__name__
            if "certificate" in text.lower():
                raise ConfigurationError(
                    f"{self._doing}, at {self._options.address}: {text}",
                    hint="set the option tls_ca_file to the certificate of the broker's authority",
                ) from None
            raise unavailable(self._doing, self._options, text) from None

    def _guarded(self, call: Callable[[], Any]) -> None:
        """Call the library. What it cannot read ends the connection."""
        try:
            call()
        except Exception as error:
            text = f"the broker has sent what the client cannot read: {type(error).__name__}: {error}"
            self._lost = self._lost or unavailable(self._doing, self._options, text)

    # --- called by the library, during a step
    # ------------------------------------------------------

    def _on_connect(self, mqtt: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._progress += 1
        if reason.value >= _REFUSED:
            self._lost = refusal(reason.value, str(reason), self._doing, self._options)
            return
        limits = BrokerLimits(
            max(getattr(properties, "ReceiveMaximum", _MOST_RECEIVED), 1),
            getattr(properties, "MaximumPacketSize", None),
            bool(getattr(properties, "RetainAvailable", 1)),
        )
        self._connected = bool(flags.session_present), limits
        if getattr(properties, "MaximumQoS", 1) < 1:
            self._lost = ConfigurationError(
                f"{self._doing}, at {self._options.address}: the broker does not offer QoS 1",
                hint="allow QoS 1 in the broker's configuration",
            )

    def _on_disconnect(self, mqtt: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if self._lost is not None:
            return
        if flags.is_disconnect_packet_from_server:
            self._lost = refusal(reason.value, str(reason), self._doing, self._options)
        else:
            self._lost = unavailable(self._doing, self._options, "the connection is lost")

    def _on_message(self, mqtt: Any, data: Any, message: Any) -> None:
        self._progress += 1
        self.arrived.append(
            MqttMessage(
                message.mid if message.qos else 0,
                bool(message.dup),
                message.topic,
                bytes(message.payload),
                bool(message.retain),
            )
        )

    def _on_subscribe(self, mqtt: Any, data: Any, packet: int, reasons: Any, properties: Any) -> None:
        self._progress += 1
        self._answers[packet] = reasons

    def _on_publish(self, mqtt: Any, data: Any, packet: int, reason: Any, properties: Any) -> None:
        self._progress += 1
        self._answers[packet] = reason
