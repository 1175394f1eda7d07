"""Requests of the driver to a cluster: topics, partitions and offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.kafka.admin import admin_client, admin_module, answer
from rheos.connectors.kafka.bounds import Offsets, Partition, named
from rheos.connectors.kafka.client_options import ClientOptions, client
from rheos.connectors.kafka.errors import is_refusal, kafka_error, lacks_coordinator
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError
from rheos.core.known_names import meant

T = TypeVar("T")

Topics: TypeAlias = tuple[str, ...] | re.Pattern[str]
"""Names, or a pattern that must match a whole name."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

QUESTION = OutsideCall(
    server="Kafka",
    call="source and sink: requests for topics, partitions and offsets, at the start and later",
    limit_s=75.0,
    limit="30 s for each request of the client, 5 s while the job runs; 75 s and 25 s if the client "
    "does not respect these",
    then="the client is abandoned. At the start of a job, the error names the brokers. Later, the "
    "source repeats the request with a new client; records are not lost, because their offsets "
    "are in the checkpoints",
)
REACHED_WITHIN_S = 30.0
"""Maximum time a cluster may take to answer, which includes its start."""
_ASKED_AGAIN_S = 1.0
_MARKED_WITHIN_S = 1.0
"""Time that a transaction has to become readable after its commit: its marks are written later."""
_UNREACHED = ("_TRANSPORT", "_RESOLVE")
"""Errors that the client reports through its callback if no broker is reachable; the calls themselves
only time out."""
_INTERNAL = "__"
"""Prefix of the brokers' internal topics, which no pattern matches."""


@dataclass(frozen=True)
class FoundTopic:
    name: str
    id: str
    """Id that changes if the topic is deleted and created again; empty if the broker sends none."""
    partitions: tuple[int, ...]


def is_topic_name(given: Any) -> bool:
    """Return whether `given` is a valid name of a topic."""
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


class _NoTopicError(InputError):
    """Error for a topic that does not exist, or no longer exists."""


class KafkaCluster:
    """Requests to the brokers. Every method may wait until `given_up` returns True, and raises
    RheosError without secrets. If the client does not return from a request within our limit, the
    request is abandoned together with the client."""

    def __init__(
        self,
        options: ClientOptions,
        *,
        read_committed: bool = True,
        given_up: Callable[[], bool] = lambda: False,
        within_s: float | None = None,
    ) -> None:
        """Create the cluster's client. `within_s`: time it may take to answer, by default
        `REACHED_WITHIN_S`."""
        self._options = options
        self._calls = BoundedCalls()
        within_s = REACHED_WITHIN_S if within_s is None else within_s
        self._grace_s = 2 * (REACHED_WITHIN_S - within_s)
        self._made = partial(_Brokers, options, read_committed, given_up, within_s)
        self._brokers = self._made()

    def find(self, topics: Topics) -> list[FoundTopic]:
        """Return the topics that exist, by name. Raises ConfigurationError if one that is named does
        not; a pattern may match none."""
        return self._asked(lambda brokers: brokers.find(topics))

    def described(self, names: Sequence[str]) -> list[FoundTopic]:
        """Return those of the named topics that exist."""
        return self._asked(lambda brokers: brokers.described(names))

    def max_message_bytes(self, topic: str) -> int | None:
        """Return the setting of the topic; None if this client may not see it."""
        return self._asked(lambda brokers: brokers.max_message_bytes(topic))

    def earliest(self, partitions: Sequence[Partition]) -> Offsets:
        """Return the first offset of each partition."""
        return self._asked(lambda brokers: brokers.earliest(partitions))

    def latest(self, partitions: Sequence[Partition]) -> Offsets:
        """Return the offset after the last record of each partition."""
        return self._asked(lambda brokers: brokers.latest(partitions))

    def at(self, partitions: Sequence[Partition], ms: int) -> Offsets:
        """Return the first offset from a time on, of the partitions that have one."""
        return self._asked(lambda brokers: brokers.at(partitions, ms))

    def committed(self, partitions: Sequence[Partition], group: str) -> Offsets:
        """Return the offsets that a group has committed."""
        return self._asked(lambda brokers: brokers.committed(partitions, group))

    def _asked(self, ask: Callable[[_Brokers], T]) -> T:
        brokers = self._brokers
        try:
            return self._calls.run(
                f"requesting topics and offsets from Kafka at {self._options.brokers}",
                max(QUESTION.limit_s - self._grace_s, min(QUESTION.limit_s, 1.0)),
                lambda progressed: ask(brokers),
            )
        except AbandonedCallError:
            self._brokers = self._made()  # The abandoned call still uses the old client.
            raise


class _Brokers:
    """Client of a cluster. Its calls may block for longer than the client's own limits."""

    def __init__(
        self,
        options: ClientOptions,
        read_committed: bool,
        given_up: Callable[[], bool],
        within_s: float,
    ) -> None:
        client()
        self._within_s = within_s
        self._options = options
        self._given_up = given_up
        self._spec = admin_module().OffsetSpec
        self._committed_only = read_committed
        self._refused: Any = None
        self._unreached: Any = None
        try:
            self._admin = admin_client(options, "rheos-source", self._on_error)
        except client().KafkaException as error:
            raise self._error(error, "the Kafka client cannot be created") from None

    # --- topics --------------------------------------------------------------------------------------

    def find(self, topics: Topics) -> list[FoundTopic]:
        there = self._names()
        if isinstance(topics, re.Pattern):
            wanted = [n for n in there if topics.fullmatch(n) and not n.startswith(_INTERNAL)]
        else:
            for name in topics:
                if name not in there:
                    raise self._missing(name, there)
            wanted = sorted(set(topics))
        return self.described(wanted)

    def described(self, names: Sequence[str]) -> list[FoundTopic]:
        """Return those of the named topics that exist."""
        if not names:
            return []
        asked = client().TopicCollection(list(names))
        futures = self._admin.describe_topics(asked, request_timeout=self._within_s)
        found = []
        for name in sorted(names):
            try:
                topic = self._result(futures[name], f"the topic {name!r} cannot be inspected")
            except _NoTopicError:
                continue
            numbers = tuple(sorted(partition.id for partition in topic.partitions))
            found.append(FoundTopic(name, _known_id(topic.topic_id), numbers))
        return found

    def max_message_bytes(self, topic: str) -> int | None:
        """Return the setting of the topic; None if this client may not see it."""
        admin = admin_module()
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        try:
            [asked] = self._admin.describe_configs([resource], request_timeout=self._within_s).values()
            return int(asked.result(2 * self._within_s)["max.message.bytes"].value)
        except (client().KafkaException, KeyError, ValueError, TypeError):
            return None

    def _names(self) -> list[str]:
        """Return the names of all topics. Waits for a cluster that is down, but not if it refuses this
        client."""
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                return sorted(self._admin.list_topics(timeout=_ASKED_AGAIN_S).topics)
            except client().KafkaException as error:
                self._admin.poll(0)  # runs the error callback, which knows the reason
                if self._refused is not None or time.monotonic() > deadline:
                    why = self._refused or self._unreached or error
                    raise self._error(why, "the cluster does not answer") from None

    def _missing(self, name: str, existing: Sequence[str]) -> RheosError:
        return ConfigurationError(
            f"the topic {name!r} does not exist at {self._options.brokers}",
            hint=meant(name, existing) + "create it first; Rheos does not create topics",
        )

    # --- offsets -------------------------------------------------------------------------------------

    def earliest(self, partitions: Sequence[Partition]) -> Offsets:
        return self._listed(partitions, self._spec.earliest())

    def latest(self, partitions: Sequence[Partition]) -> Offsets:
        """Return the offsets after the last readable records.

        A committed transaction is not readable before the broker has written its marks. So this waits
        for transactions that have written before the call, for a second at most.
        """
        found = self._listed(partitions, self._spec.latest())
        if not self._committed_only:
            return found
        ends = self._listed(partitions, self._spec.latest(), committed_only=False)
        deadline = time.monotonic() + _MARKED_WITHIN_S
        while any(found[each] < ends[each] for each in partitions) and time.monotonic() < deadline:
            time.sleep(_MARKED_WITHIN_S / 50)
            found = self._listed(partitions, self._spec.latest())
        return found

    def at(self, partitions: Sequence[Partition], ms: int) -> Offsets:
        found = self._listed(partitions, self._spec.for_timestamp(ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def committed(self, partitions: Sequence[Partition], group: str) -> Offsets:
        """Return committed offsets, read by a consumer that does not join the group. The admin client's
        own call crashes the process if the broker has never had a group."""
        module = client()
        doing = f"the offsets of the group {group!r} cannot be read"
        asked = [module.TopicPartition(*partition) for partition in partitions]
        config = self._options.config("rheos-source", group_id=group, enable_auto_commit=False)
        try:
            consumer = module.Consumer({**config, "error_cb": self._on_error})
        except module.KafkaException as error:
            raise self._error(error, doing) from None
        try:
            found = self._asked_until_it_knows(
                partial(consumer.committed, asked, self._within_s), doing
            )
        finally:
            consumer.close()
        for each in found:
            if each.error is not None:
                raise self._error(each.error, doing)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _asked_until_it_knows(self, ask: Callable[[], Any], doing: str) -> Any:
        """Repeat a request while the broker reports no group coordinator: it does so while it creates
        the topic for the groups' offsets."""
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                return ask()
            except client().KafkaException as error:
                passes = lacks_coordinator(error) and time.monotonic() < deadline
                if not passes or self._refused is not None or self._given_up():
                    raise self._error(self._refused or error, doing) from None
                time.sleep(_ASKED_AGAIN_S / 10)

    def _listed(
        self, partitions: Sequence[Partition], spec: Any, *, committed_only: bool | None = None
    ) -> Offsets:
        if not partitions:
            return {}
        module = client()
        level = module.IsolationLevel
        committed_only = self._committed_only if committed_only is None else committed_only
        asked = {module.TopicPartition(*partition): spec for partition in partitions}
        futures = self._admin.list_offsets(
            asked,
            isolation_level=level.READ_COMMITTED if committed_only else level.READ_UNCOMMITTED,
            request_timeout=self._within_s,
        )
        found: Mapping[Partition, Any] = {(of.topic, of.partition): f for of, f in futures.items()}
        return {
            partition: self._result(found[partition], f"{named(partition)} cannot be inspected").offset
            for partition in partitions
        }

    # --- errors --------------------------------------------------------------------------------------

    def _result(self, future: Any, doing: str) -> Any:
        try:
            return answer(self._admin, future, partial(self._give_up, doing))
        except client().KafkaException as error:
            if error.args[0].code() == client().KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _NoTopicError(str(self._error(error, doing))) from None
            raise self._error(self._refused or error, doing) from None

    def _give_up(self, doing: str) -> None:
        if self._refused is not None:
            raise self._error(self._refused, doing)
        if self._given_up():
            raise UnavailableError(f"{doing}: cancelled, because the caller has given up")

    def _error(self, error: Any, doing: str) -> RheosError:
        return kafka_error(error, doing, self._options)

    def _on_error(self, error: Any) -> None:
        if is_refusal(error):
            self._refused = error
        elif self._unreached is None and error.name() in _UNREACHED:
            self._unreached = error


def _known_id(id: Any) -> str:
    return "" if id is None or id == client().Uuid(0, 0) else str(id)
