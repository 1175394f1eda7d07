"""Shards of a stream, which are the splits of a source.

A stream that grows splits a shard into two, and one that shrinks merges two. The former shards are then
closed: they have an end, and their children have the later records of the same partition keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from rheos.connectors.aws.session import AwsSession, answered_at_ms
from rheos.connectors.kinesis.session import named_stream
from rheos.core.connectors.contract import Split
from rheos.core.errors import InputError

_MOST_PAGES = 1000


class ShardSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split."""

    shard: str
    created_ms: int
    """Time at which the stream was created."""
    first_hash: str
    last_hash: str
    """Range of hashes of partition keys. The numbers have 128 bits."""
    parents: list[str]
    """Shards whose records are before those of this one, as far as they exist."""
    since_ms: int | None = None
    """Records that were stored earlier are left out; None for none."""
    end_ms: int | None = None
    """The split ends at the first record that was stored later; None for a source without an end."""

    @property
    def split(self) -> Split:
        """Return it as a split."""
        return Split(self.shard, msgspec.msgpack.encode(self))

    @classmethod
    def of(cls, split: Split) -> ShardSplit:
        """Decode the payload of a split."""
        return msgspec.msgpack.decode(split.payload, type=cls)


@dataclass(frozen=True)
class FoundShards:
    """Shards of a stream at a time."""

    now_ms: int
    """The service's time, in whole seconds."""
    created_ms: int
    shards: Sequence[dict[str, Any]]

    def splits(self, since_ms: int | None, end_ms: int | None) -> list[Split]:
        """Return the shards as splits.

        Args:
            since_ms: Time of the first record to read; None for all.
            end_ms: Time of the last record to read; None for a source without an end.

        Returns:
            The splits, parents before their children.
        """
        listed = {each["ShardId"] for each in self.shards}
        found = []
        for each in sorted(self.shards, key=lambda each: str(each["ShardId"])):
            hashes = each["HashKeyRange"]
            parents = [each.get("ParentShardId"), each.get("AdjacentParentShardId")]
            found.append(
                ShardSplit(
                    str(each["ShardId"]),
                    self.created_ms,
                    str(hashes["StartingHashKey"]),
                    str(hashes["EndingHashKey"]),
                    [str(parent) for parent in parents if parent in listed],
                    since_ms,
                    end_ms,
                ).split
            )
        return found


def _listed(request: dict[str, Any], client: Any) -> Any:
    return client.list_shards(**request)


def find_shards(session: AwsSession, stream: str) -> FoundShards:
    """Ask for the shards of a stream.

    Args:
        session: A session with the service.
        stream: Name or ARN of the stream.

    Returns:
        The shards whose records the stream still has.

    Raises:
        RheosError: The service does not answer, or there is no such stream.
    """
    asked = session.ask(lambda client: client.describe_stream_summary(**named_stream(stream)))
    created_ms = int(asked["StreamDescriptionSummary"]["StreamCreationTimestamp"].timestamp() * 1000)
    request: dict[str, Any] = named_stream(stream)
    shards: list[dict[str, Any]] = []
    for _ in range(_MOST_PAGES):
        answer = session.ask(partial(_listed, request))
        shards += answer["Shards"]
        if not answer.get("NextToken"):
            return FoundShards(answered_at_ms(asked), created_ms, shards)
        request = {"NextToken": answer["NextToken"]}
    raise InputError(f"the stream {stream!r} has more than {len(shards)} shards")
