"""A queue in memory, with the calls of SQS's client, and faults at any request."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

SENT_MS = 1_700_000_000_000


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"it is {code}"}}, "Request")


@dataclass
class Message:
    id: str
    body: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None
    visible_s: float = 0.0
    receipt: str = ""
    deliveries: int = 0


class MemoryQueue:
    """The client of one queue."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.sent: list[Message] = []
        self.requests: list[Sequence[Any]] = []
        """Entries of each request for sending."""
        self.ids: set[str] = set()
        self.faults: dict[str, list[Any]] = defaultdict(list)
        """Faults of the next requests: an error to raise, or the code and the sender's fault by
        the index of an entry."""
        self.numbers = 0

    def put(self, *payloads: Any, **more: Any) -> None:
        for payload in payloads:
            self.numbers += 1
            body = payload if isinstance(payload, str) else json.dumps(payload)
            made = Message(f"m{self.numbers}", body, **more)
            self.messages[made.id] = made
            self.sent.append(made)

    def payloads(self) -> list[Any]:
        return [json.loads(each.body) for each in self.sent]

    def show_all(self) -> None:
        """Let the time pass for which messages are hidden."""
        for message in self.messages.values():
            message.visible_s = 0.0

    def visible(self) -> int:
        return sum(each.visible_s <= time.monotonic() for each in self.messages.values())

    # --- the client

    def _fault(self, request: str) -> Mapping[int, tuple[str, bool]]:
        fault = self.faults[request].pop(0) if self.faults[request] else {}
        if isinstance(fault, Exception):
            raise fault
        found: Mapping[int, tuple[str, bool]] = fault
        return found

    def get_queue_url(self, QueueName: str) -> Any:  # noqa: N803
        self._fault("url")
        if not QueueName.startswith("orders"):
            raise refused("AWS.SimpleQueueService.NonExistentQueue")
        return {"QueueUrl": f"http://localhost/{QueueName}"}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: Sequence[str]) -> Any:  # noqa: N803
        self._fault("attributes")
        return {"Attributes": {}}

    def receive_message(self, MaxNumberOfMessages: int, VisibilityTimeout: int, **more: Any) -> Any:  # noqa: N803
        self._fault("receive")
        assert 0 < MaxNumberOfMessages <= 10
        now_s = time.monotonic()
        ready = [each for each in self.messages.values() if each.visible_s <= now_s]
        found = []
        for each in ready[:MaxNumberOfMessages]:
            each.visible_s = now_s + VisibilityTimeout
            each.deliveries += 1
            each.receipt = f"{each.id}/{each.deliveries}"
            system = {"ApproximateReceiveCount": str(each.deliveries), "SentTimestamp": str(SENT_MS)}
            if each.group is not None:
                system["MessageGroupId"] = each.group
            found.append(
                {
                    "MessageId": each.id,
                    "ReceiptHandle": each.receipt,
                    "Body": each.body,
                    "Attributes": system,
                    "MessageAttributes": each.attributes,
                }
            )
        if not found:
            time.sleep(0.005)
        return {"Messages": found}

    def _by_receipt(self, request: str, entries: Sequence[Any], act: Any) -> Any:
        assert 0 < len(entries) <= 10
        failures = self._fault(request)
        failed = []
        for at, entry in enumerate(entries):
            message = self.messages.get(entry["ReceiptHandle"].partition("/")[0])
            code, fault = failures.get(at, ("", False))
            if message is None or message.receipt != entry["ReceiptHandle"]:
                code, fault = "ReceiptHandleIsInvalid", True
            if code:
                failed.append({"Id": entry["Id"], "Code": code, "SenderFault": fault})
            else:
                act(message, entry)
        return {"Failed": failed} if failed else {}

    def delete_message_batch(self, QueueUrl: str, Entries: Sequence[Any]) -> Any:  # noqa: N803
        return self._by_receipt("delete", Entries, lambda each, entry: self.messages.pop(each.id))

    def change_message_visibility_batch(self, QueueUrl: str, Entries: Sequence[Any]) -> Any:  # noqa: N803
        def hide(each: Message, entry: Any) -> None:
            each.visible_s = time.monotonic() + entry["VisibilityTimeout"]

        return self._by_receipt("hide", Entries, hide)

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[Any]) -> Any:  # noqa: N803
        assert 0 < len(Entries) <= 10
        failures = self._fault("send")
        self.requests.append(Entries)
        failed = []
        for at, entry in enumerate(Entries):
            id = entry.get("MessageDeduplicationId")
            if at in failures:
                code, fault = failures[at]
                failed.append({"Id": entry["Id"], "Code": code, "SenderFault": fault})
            elif id is None or id not in self.ids:
                self.ids |= {id}
                self.put(
                    entry["MessageBody"],
                    attributes=entry["MessageAttributes"],
                    group=entry.get("MessageGroupId"),
                )
        return {"Failed": failed} if failed else {}
