"""`rheos connectors`: the connectors and formats that are installed, and what each can do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from rheos.cli.failures import report
from rheos.cli.jobs import console
from rheos.connectors.registration import CONNECTORS, ConnectorRegistration
from rheos.core.plug_ins import Registered
from rheos.formats.registration import FORMATS


def show_connectors(as_json: bool) -> int:
    """Print them. Return 2 if one of them cannot be used."""
    connectors, formats = CONNECTORS.registered(), FORMATS.registered()
    shown = {
        "connectors": [_shown(each) for each in connectors],
        "formats": [_shown(each) for each in formats],
    }
    if as_json:
        print(json.dumps(shown, indent=2))
    else:
        tables = [_table(heading, shown[f"{heading}s"]) for heading in ("connector", "format")]
        console().print(*tables)
    listed: Sequence[Registered[Any]] = [*connectors, *formats]
    errors = [each.error for each in listed if each.error is not None]
    return max([0, *(report(error) for error in errors)])


def _shown(each: Registered[Any]) -> dict[str, Any]:
    found = each.registration
    shown: dict[str, Any] = {"name": each.name, "distribution": each.distribution}
    if found is None:
        return shown | {"error": str(each.error)}
    shown |= {"installed": found.is_installed(), "install": found.install, "docs": found.docs}
    if isinstance(found, ConnectorRegistration):
        shown["can"] = [*found.functions, *(["server"] if found.server else [])]
    else:
        shown["can"] = ["encode", "decode"]
    return shown


def _table(what: str, rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (what, "can", "client library", "from"):
        table.add_column(heading)
    for row in rows:
        if "error" in row:
            client = "cannot be used"
        elif not row["install"]:
            client = "not needed"
        else:
            client = "installed" if row["installed"] else f"pip install '{row['install']}'"
        cells = (row["name"], ", ".join(row.get("can", [])), client, row["distribution"])
        table.add_row(*map(Text, cells))  # Brackets in it are no markup.
    return table
