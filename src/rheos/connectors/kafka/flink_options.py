"""Options of Flink's connector for topics, as arguments of this connector."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.connectors.sql_options import OF_FORMATS, WITHOUT_EFFECT, SqlOption

FLINK_OPTIONS: Mapping[str, SqlOption] = {
    **OF_FORMATS,
    "properties.bootstrap.servers": SqlOption("brokers"),
    "properties.bootstrap.server": SqlOption("brokers"),
    "properties.group.id": SqlOption("group"),
    "properties.auto.offset.reset": WITHOUT_EFFECT,
    "properties.": SqlOption("options"),
    "scan.startup.mode": SqlOption(
        "start",
        {
            "earliest-offset": "earliest",
            "latest-offset": "latest",
            "group-offsets": "group",
            "earliest": "earliest",
            "latest": "latest",
        },
    ),
    "scan.startup.timestamp-millis": SqlOption("start"),
    "scan.bounded.mode": SqlOption("end", {"latest-offset": "latest"}),
    "scan.bounded.timestamp-millis": SqlOption("end"),
    "scan.topic-partition-discovery.interval": SqlOption("discover"),
    "scan.watermark.": WITHOUT_EFFECT,
    "key.fields": SqlOption("key"),
    "key.format": SqlOption("", {"raw": "", "csv": "", "json": ""}),
    "value.fields-include": SqlOption("", {"all": ""}),
    "sink.delivery-guarantee": SqlOption(
        "guarantee", {"exactly-once": "exactly_once", "at-least-once": "at_least_once"}
    ),
    "sink.transactional-id-prefix": SqlOption("id_prefix"),
    "sink.buffer-flush.": WITHOUT_EFFECT,
}
