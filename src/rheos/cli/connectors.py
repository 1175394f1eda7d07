"""`rheos connectors`: the installed connectors and formats, their capabilities and guarantees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import console
from rheos.cli.terminal import MISUSED, report, say
from rheos.connectors.guarantees import guarantees_of, is_able, made_classes
from rheos.connectors.registration import CONNECTORS, ConnectorRegistration
from rheos.core.connectors.capabilities import SOURCE_CAPABILITIES
from rheos.core.connectors.sink_capabilities import SINK_CAPABILITIES
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.known_names import names_hint
from rheos.core.plug_ins import RegistryEntry
from rheos.formats.registration import FORMATS

_PROTOCOLS: Mapping[str, Sequence[type]] = {
    "source": SOURCE_CAPABILITIES,
    "changes": SOURCE_CAPABILITIES,
    "sink": SINK_CAPABILITIES,
}


def show_connectors(as_json: bool, name: str | None = None) -> int:
    """Print the connectors and formats. Return the exit code: 2 if one of them cannot be used.

    Args:
        as_json: print JSON, with the capabilities of each source and sink.
        name: print only this connector, with its capabilities.
    """
    if name is not None:
        return _show_one(name, as_json)
    connectors, formats = CONNECTORS.registered(), FORMATS.registered()
    shown = {
        "connectors": [_json_of(each) for each in connectors],
        "formats": [_json_of(each) for each in formats],
    }
    if as_json:
        print(json.dumps(shown, indent=2))
    else:
        tables = [_table(heading, shown[f"{heading}s"]) for heading in ("connector", "format")]
        console().print(*tables)
    listed: Sequence[RegistryEntry[Any]] = [*connectors, *formats]
    errors = [each.error for each in listed if each.error is not None]
    return max([0, *(report(error) for error in errors)])


def _show_one(name: str, as_json: bool) -> int:
    listed = {each.name: each for each in CONNECTORS.registered()}
    if name not in listed:
        hint = names_hint(name, listed, "the connectors are")
        return report(ConfigurationError(f"unknown connector {name!r}", hint=hint))
    found = listed[name]
    if found.error is not None:
        return report(found.error)
    shown = _json_of(found)
    if as_json:
        print(json.dumps(shown, indent=2))
    else:
        if "error" in shown:
            say(shown["error"], error=True)
            return MISUSED
        for promise, words in shown["guarantees"].items():
            if words:
                say(f"{promise.replace('_', ' ')}: {words}")
        for what, able in shown.pop("capabilities").items():
            say(f"{what}: {', '.join(able) or 'no capabilities beyond the contract'}")
        for key in ("install", "docs", "distribution"):
            say(f"{key}: {shown[key] or 'nothing'}")
    return 0


def _capabilities(found: ConnectorRegistration) -> dict[str, list[str]]:
    """Return the capabilities of the class that each of a connector's functions returns."""
    able: dict[str, list[str]] = {}
    for what in found.functions:
        made = made_classes(found, what)
        able[what] = [each.__name__ for each in _PROTOCOLS.get(what, ()) if is_able(made, each)]
    return able


def _json_of(each: RegistryEntry[Any]) -> dict[str, Any]:
    found = each.registration
    shown: dict[str, Any] = {"name": each.name, "distribution": each.distribution}
    if found is None:
        return shown | {"error": str(each.error)}
    shown |= {"installed": found.is_installed(), "install": found.install, "docs": found.docs}
    if isinstance(found, ConnectorRegistration):
        shown["can"] = [*found.functions, *(["server"] if found.server else [])]
        try:
            shown["capabilities"] = _capabilities(found)
            shown["guarantees"] = asdict(guarantees_of(found))
        except RheosError as error:
            shown["error"] = str(error)
    else:
        shown["can"] = ["encode", "decode"]
    return shown


def _table(what: str, rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    promises = {"reads again": "reads_again", "delivers": "delivers"} if what == "connector" else {}
    for heading in (what, "can", *promises, "client library", "from"):
        table.add_column(heading)
    for row in rows:
        if "error" in row:
            client = "cannot be used"
        elif not row["install"]:
            client = "not needed"
        else:
            client = "installed" if row["installed"] else f"pip install '{row['install']}'"
        guaranteed = row.get("guarantees", {})
        promised = (guaranteed.get(name, "") for name in promises.values())
        cells = (row["name"], ", ".join(row.get("can", [])), *promised, client, row["distribution"])
        table.add_row(*map(Text, cells))  # `Text` prevents that brackets are interpreted as markup.
    return table
