"""The page of settings has the tables that the declarations generate. To update it: python -m
tests.docs.test_settings"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from itertools import groupby
from pathlib import Path

from rheos.api.settings import SETTINGS
from rheos.core.protocol.setting import Setting
from rheos.core.protocol.sizes import written_size

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
TABLES = re.compile(
    r"(?<=<!-- settings: made by tests/docs/test_settings.py -->\n).*?(?=<!-- end)", re.S
)
TYPES = {
    "int": "whole number",
    "bool": "true or false",
    "Duration": "duration",
    "Duration | int": "duration, 0 or -1",
    "Size": "size",
    "str": "string",
    "Folder": "path or URL",
    "int | str": 'whole number, "auto:N..M" or "auto"',
    "Mapping[str, str]": "mapping of strings",
    "RuntimeName | Runtime": "string, or a runtime",
    "Session": "session",
    "RestartStrategy": "[strategy](restarts.md#checkpoints-and-restarts)",
    "StateChoice": "string, or `rh.StateConfig`",
    "Checkpoints": "`rh.Checkpoints`",
}


def tables(settings: Mapping[str, Setting] = SETTINGS) -> str:
    lines = []
    for section, declared in groupby(settings.values(), lambda each: each.section):
        lines += ["", f"## {section}", "", "| setting | type | default | option | meaning |"]
        lines += ["|---|---|---|---|---|", *map(line, declared)]
    return "\n".join(lines) + "\n\n"


def line(declared: Setting) -> str:
    name = f"`{declared.name}`" + (" (fixed)" if declared.fixed else "")
    kind = ", ".join(f'"{each}"' for each in declared.choices) or TYPES.get(
        declared.type, declared.type
    )
    return f"| {name} | {kind} | {default(declared)} | {option(declared)} | {declared.help} |"


def default(declared: Setting) -> str:
    match declared.default:
        case Enum() as each:
            return f"`{each.value!r}`".replace("'", '"')
        case str() as text:
            return f'`"{text}"`'
        case int() as size if declared.type == "Size":
            return f'`"{written_size(size)}"`'
        case None | int():
            return f"`{declared.default}`"
        case _:
            return ""


def option(declared: Setting) -> str:
    return "" if declared.option is None else f"`{declared.option}`"


def test_the_page_lists_every_setting() -> None:
    assert TABLES.findall(PAGE.read_text()) == [tables()], (
        "write it: python -m tests.docs.test_settings"
    )


if __name__ == "__main__":
    PAGE.write_text(TABLES.sub(lambda _: tables(), PAGE.read_text()))
