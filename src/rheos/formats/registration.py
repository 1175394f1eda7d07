"""Registry of formats, which SQL and `rh.formats` find by name.

Another distribution adds its own through the entry-point group `rheos.formats`:

    [project.entry-points."rheos.formats"]
    ion = "acme_ion.registration:FORMAT"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.core.plug_ins import PlugInRegistry, Registration


@dataclass(frozen=True, kw_only=True)
class FormatRegistration(Registration):
    """Registration of one format of payloads."""

    function: str
    """Function that creates the format, as `module:function`. Its arguments are the options in SQL:
    `'ion.symbols' = '...'` is the argument `symbols` of the format `ion`."""

    def make(self) -> Any:
        """Import and return the function that creates the format."""
        return FORMATS.imported(self, self.function)


FORMATS = PlugInRegistry(
    FormatRegistration,
    "format",
    "rheos.formats",
    {
        **{
            name: f"rheos.formats.{name}_format:FORMAT"
            for name in ("json", "csv", "arrow", "avro", "protobuf", "text", "raw")
        },
        "debezium_json": "rheos.formats.change_formats:DEBEZIUM_JSON",
        "debezium_avro_confluent": "rheos.formats.change_formats:DEBEZIUM_AVRO",
        "canal_json": "rheos.formats.change_formats:CANAL_JSON",
        "maxwell_json": "rheos.formats.change_formats:MAXWELL_JSON",
        "ogg_json": "rheos.formats.change_formats:OGG_JSON",
    },
    namespace="rheos.formats",
)
"""All formats by name. Rheos declares its own in pyproject.toml, as any distribution does."""
