"""Formats of payloads (the value of a message, a line of a file): `rh.formats`.

`core/formats/contract.py` defines what a format is. Formats of other distributions are attributes of
this package, too, under their registered names (`registration.py`).
"""

import sys as _sys
import typing as _typing

from rheos.core.formats.contract import Decoded as Decoded
from rheos.core.formats.contract import Decoder as Decoder
from rheos.core.formats.contract import Encoder as Encoder
from rheos.core.formats.contract import Format as Format
from rheos.core.unknown_names import with_hints as _with_hints
from rheos.formats.arrow_format import arrow as arrow
from rheos.formats.avro_format import avro as avro
from rheos.formats.change_formats import canal_json as canal_json
from rheos.formats.change_formats import debezium_avro_confluent as debezium_avro_confluent
from rheos.formats.change_formats import debezium_json as debezium_json
from rheos.formats.change_formats import maxwell_json as maxwell_json
from rheos.formats.change_formats import ogg_json as ogg_json
from rheos.formats.csv_format import csv as csv
from rheos.formats.json_format import json as json
from rheos.formats.protobuf_format import protobuf as protobuf
from rheos.formats.raw_format import raw as raw
from rheos.formats.registration import FormatRegistration as FormatRegistration
from rheos.formats.text_format import text as text

if not _typing.TYPE_CHECKING:  # A type checker would accept any name.

    def __getattr__(name: str) -> _typing.Any:
        """Return the function of a format that another distribution has registered."""
        from rheos.formats.registration import FORMATS

        found = None if name.startswith("_") or name in FORMATS.built_in else FORMATS.find(name)
        if found is None:
            raise AttributeError(f"module 'rheos.formats' has no attribute {name!r}")
        return found.make()


_with_hints("formats", _sys.modules[__name__])
