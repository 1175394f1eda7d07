"""A stream in memory, with the calls of Kinesis's client, and faults at any request.

It does what the service documents: a closed shard ends with a request that returns no iterator, its
children have no copies of its records, and sequence numbers have some 185 bits.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

FIRST = 49590338271490256608559692538361571095921575989136588898
BEGAN_MS = 1_700_000_000_000
ALL = 1 << 128


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def refused(code: str, request: str = "Request", status: int = 400) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": f"it is {code}"},
            "ResponseMetadata": {"HTTPStatusCode": status},  # type: ignore[typeddict-item]
        },
        request,
    )


@dataclass
class Shard:
    first: int
    last: int
    parents: Sequence[str] = ()
    is_open: bool = True
    records: list[dict[str, Any]] = field(default_factory=list)


class MemoryStream:
    """The client of one stream. Each request takes a second of the service's clock."""

    def __init__(self, shards: int = 2) -> None:
        step = ALL // shards
        self.shards = {f"shardId-{n:012}": Shard(n * step, (n + 1) * step - 1) for n in range(shards)}
        self.now_ms = BEGAN_MS
        self.created_ms = BEGAN_MS - 1000
        self.number = FIRST
        self.faults: dict[str, list[Any]] = defaultdict(list)
        """Faults of the next requests, by their names: an error to raise, or the codes by the
        partition keys of the records that a request refuses."""
        self.requests: list[Sequence[str]] = []
        """Payloads of each request for writing."""

    # --- for tests

    def put(self, payload: Any, key: str = "k", hash_key: int | None = None) -> str:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        found = int.from_bytes(hashlib.md5(key.encode()).digest()) if hash_key is None else hash_key
        [shard] = [
            each for each in self.shards.values() if each.first <= found <= each.last and each.is_open
        ]
        self.number += 7
        shard.records.append(
            {
                "SequenceNumber": str(self.number),
                "ApproximateArrivalTimestamp": moment(self.now_ms),
                "Data": data,
                "PartitionKey": key,
            }
        )
        return str(self.number)

    def divide(self, name: str) -> None:
        shard = self.shards[name]
        middle = (shard.first + shard.last) // 2
        self._close(name)
        for first, last in ((shard.first, middle), (middle + 1, shard.last)):
            self.shards[f"shardId-{len(self.shards):012}"] = Shard(first, last, (name,))

    def merge(self, name: str, other: str) -> None:
        for each in (name, other):
            self._close(each)
        self.shards[f"shardId-{len(self.shards):012}"] = Shard(
            self.shards[name].first, self.shards[other].last, (name, other)
        )

    def _close(self, name: str) -> None:
        self.shards[name].is_open = False

    def payloads(self) -> list[Any]:
        return [json.loads(each["Data"]) for shard in self.shards.values() for each in shard.records]

    # --- the client

    def _answer(self, request: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        self.now_ms += 1000
        if self.faults[request] and isinstance(self.faults[request][0], Exception):
            raise self.faults[request].pop(0)
        date = moment(self.now_ms).strftime("%a, %d %b %Y %H:%M:%S GMT")
        return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def describe_stream_summary(self, StreamName: str) -> Any:  # noqa: N803
        if StreamName != "orders":
            raise refused("ResourceNotFoundException")
        found = {"StreamCreationTimestamp": moment(self.created_ms), "RetentionPeriodHours": 48}
        return self._answer("describe", {"StreamDescriptionSummary": found})

    def list_shards(self, StreamName: str = "", NextToken: str = "0") -> Any:  # noqa: N803
        names, begin = [*self.shards], int(NextToken)
        page = [self._described(name) for name in names[begin : begin + 2]]
        more = {"NextToken": str(begin + 2)} if begin + 2 < len(names) else {}
        return self._answer("list", {"Shards": page, **more})

    def _described(self, name: str) -> dict[str, Any]:
        shard = self.shards[name]
        parents = dict(zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False))
        hashes = {"StartingHashKey": str(shard.first), "EndingHashKey": str(shard.last)}
        return {"ShardId": name, "HashKeyRange": hashes, **parents}

    def get_shard_iterator(
        self,
        StreamName: str,  # noqa: N803
        ShardId: str,  # noqa: N803
        ShardIteratorType: str,  # noqa: N803
        StartingSequenceNumber: str = "0",  # noqa: N803
        Timestamp: datetime | None = None,  # noqa: N803
    ) -> Any:
        records, at = self.shards[ShardId].records, 0
        number = int(StartingSequenceNumber)
        for record in records:
            here = int(record["SequenceNumber"])
            match ShardIteratorType:
                case "AT_SEQUENCE_NUMBER":
                    at += here < number
                case "AFTER_SEQUENCE_NUMBER":
                    at += here <= number
                case "AT_TIMESTAMP":
                    assert Timestamp is not None
                    at += record["ApproximateArrivalTimestamp"] < Timestamp
                case _:
                    assert ShardIteratorType == "TRIM_HORIZON"
        return self._answer("iterator", {"ShardIterator": f"{ShardId}:{at}"})

    def get_records(self, ShardIterator: str, Limit: int) -> Any:  # noqa: N803
        name, _, begin = ShardIterator.partition(":")
        shard = self.shards[name]
        records = shard.records[int(begin) : int(begin) + min(Limit, 4)]
        end = int(begin) + len(records)
        left = len(shard.records) - end
        more = shard.is_open or left
        found = {
            "Records": records,
            "MillisBehindLatest": 1000 * left,
            **({"NextShardIterator": f"{name}:{end}"} if more else {}),
        }
        return self._answer("records", found)

    def put_records(self, StreamName: str, Records: Sequence[Mapping[str, Any]]) -> Any:  # noqa: N803
        answered = self._answer("put", {})
        assert len(Records) <= 500
        assert sum(len(each["Data"]) + len(each["PartitionKey"]) for each in Records) <= 5 << 20
        self.requests.append([each["Data"].decode() for each in Records])
        refuses = self.faults["put"].pop(0) if self.faults["put"] else {}
        results: list[dict[str, str]] = []
        for each in Records:
            code = refuses.get(each["PartitionKey"])
            if code is None:
                results.append({"SequenceNumber": self.put(each["Data"], each["PartitionKey"])})
            else:
                results.append({"ErrorCode": code, "ErrorMessage": "refused"})
        return {**answered, "Records": results}
