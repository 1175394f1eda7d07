"""Options of CREATE TABLE that differ from the arguments of a connector's functions.

A connector is registered with them, so that statements written for Flink run with its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NO_EFFECT = ""
"""Argument of an option that changes no result."""


@dataclass(frozen=True)
class SqlOption:
    """An option whose name, or whose values, differ from those of its argument."""

    argument: str
    """Argument of the function, or an option of a format such as `csv.delimiter`. The name of a mapping
    takes all options that begin with the prefix of this option, if that ends with a dot."""
    values: Mapping[str, str] | None = None
    """Values of the argument by those of the option. None: they are the same."""


def renamed(argument: str, **values: str) -> SqlOption:
    """Return an option of another name, whose values have other names, with `_` in place of `-`.

    Args:
        argument: The argument of the function.
        values: Values of the argument by those of the option; none if they are the same.

    Returns:
        The option.
    """
    return SqlOption(
        argument, {name.replace("_", "-"): value for name, value in values.items()} or None
    )


WITHOUT_EFFECT = SqlOption(NO_EFFECT)
SKIPS_BAD_RECORDS = renamed("on_error", true="skip", false="fail")
OF_FORMATS: Mapping[str, SqlOption] = {
    "value.format": SqlOption("format"),
    "json.ignore-parse-errors": SKIPS_BAD_RECORDS,
    "json.timestamp-format.standard": WITHOUT_EFFECT,
    "json.fail-on-missing-field": SqlOption(NO_EFFECT, {"false": ""}),
    "json.encode.decimal-as-plain-number": WITHOUT_EFFECT,
    "json.map-null-key.mode": WITHOUT_EFFECT,
    "csv.ignore-parse-errors": SKIPS_BAD_RECORDS,
    **{
        f"{name}-json.{option}": meaning
        for name in ("debezium", "canal", "maxwell", "ogg")
        for option, meaning in (
            ("ignore-parse-errors", SKIPS_BAD_RECORDS),
            ("schema-include", WITHOUT_EFFECT),
            ("timestamp-format.standard", WITHOUT_EFFECT),
            ("encode.decimal-as-plain-number", WITHOUT_EFFECT),
            ("map-null-key.mode", WITHOUT_EFFECT),
        )
    },
    "debezium-avro-confluent.url": SqlOption("debezium-avro-confluent.registry"),
    "debezium-avro-confluent.schema-registry.url": SqlOption("debezium-avro-confluent.registry"),
    "csv.field-delimiter": SqlOption("csv.delimiter"),
    "csv.allow-comments": SqlOption(NO_EFFECT, {"false": ""}),
}
"""Options of Flink's formats, for connectors that have formats."""
