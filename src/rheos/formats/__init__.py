"""How payloads (the value of a message, a line of a file) become rows and rows payloads: `rh.formats`.

What a format is stands in `contract.py`. Each is one file, and its line here.
"""

from rheos.core.formats.contract import Decoded as Decoded
from rheos.core.formats.contract import Decoder as Decoder
from rheos.core.formats.contract import Encoder as Encoder
from rheos.core.formats.contract import Format as Format
from rheos.formats.arrow_format import arrow as arrow
from rheos.formats.avro_format import avro as avro
from rheos.formats.csv_format import csv as csv
from rheos.formats.json_format import json as json
from rheos.formats.protobuf_format import protobuf as protobuf
from rheos.formats.raw_format import raw as raw
from rheos.formats.text_format import text as text
