"""The mark of a writer: the offset that its group has committed for partition 0 of the topic.

No consumer joins the group. A client is created for each access to the mark, and closed again. Every
call is bounded in time, and raises RheosError.
"""

from __future__ import annotations

import time
from typing import Any

from rheos.connectors.kafka.admin import admin_client, answer
from rheos.connectors.kafka.client_options import ClientOptions, client
from rheos.connectors.kafka.errors import is_refusal, kafka_error, lacks_coordinator
from rheos.core.errors import RheosError

CREATED_WITHIN_S = 30.0
"""Maximum time that a new writer waits for a broker, in seconds: the broker may be starting, too."""
_AGAIN_S = 0.1


class Mark:
    def __init__(self, name: str, topic: str, options: ClientOptions) -> None:
        self._name = name
        self._topic = topic
        self._options = options
        self._refused: Any = None

    def place(self, epoch: int) -> Any:
        """Return the epoch's number as an offset, in the client's form for a transaction."""
        return client().TopicPartition(self._topic, 0, epoch)

    def create(self) -> None:
        """Set the mark to 0. Only the task that chose the name calls this, before others know it."""
        # A consumer's commit, and its close after a commit, wait for brokers without a limit.
        kafka = client()
        asked = kafka.ConsumerGroupTopicPartitions(self._name, [self.place(0)])
        deadline = time.monotonic() + CREATED_WITHIN_S
        try:
            admin = admin_client(self._options, self._name, self._on_error)
            while True:
                future = admin.alter_consumer_group_offsets([asked], request_timeout=CREATED_WITHIN_S)
                try:
                    self._checked(answer(admin, future[self._name], self._give_up).topic_partitions)
                    return
                except kafka.KafkaException as error:
                    if not lacks_coordinator(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(_AGAIN_S)
        except kafka.KafkaException as error:
            raise self._error(error) from None

    def _give_up(self) -> None:
        if self._refused is not None:
            raise client().KafkaException(self._refused)

    def read(self, within_s: float) -> tuple[int | None, Any]:
        """Return the mark, or None if there is no mark; and the group, in the client's form for a
        transaction. KS4: with isolation.level=read_committed the client requests stable offsets only,
        and retries while the offsets of a transaction are not settled."""
        kafka = client()
        consumer = None
        try:
            config = self._options.config(
                self._name,
                group_id=self._name,
                enable_auto_commit=False,
                isolation_level="read_committed",
                allow_auto_create_topics=False,
            )
            consumer = kafka.Consumer({**config, "error_cb": self._on_error})
            place = kafka.TopicPartition(self._topic, 0)
            [found] = self._checked(consumer.committed([place], within_s))
            group = consumer.consumer_group_metadata()
        except kafka.KafkaException as error:
            if consumer is not None:
                consumer.poll(0)
            raise self._error(error) from None
        finally:
            if consumer is not None:
                consumer.close()
        return (None if found.offset < 0 else int(found.offset)), group

    def _checked(self, places: Any) -> Any:
        for place in places:
            if place.error is not None:
                raise client().KafkaException(place.error)
        return places

    def _error(self, error: Any) -> RheosError:
        """Return the error of a call. If the brokers refuse the client, calls only time out, and the
        error callback has the reason."""
        doing = f"the topic {self._topic!r} cannot be written exactly once"
        return kafka_error(self._refused or error, doing, self._options)

    def _on_error(self, error: Any) -> None:
        if is_refusal(error):
            self._refused = error
