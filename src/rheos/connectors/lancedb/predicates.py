"""Parts of conditions in SQL that LanceDB takes.

>>> f"{quoted('id')} IN ({key_literal(7)}, {key_literal(\"it's\")})"
"`id` IN (7, 'it''s')"
"""

from __future__ import annotations


def key_literal(value: int | str) -> str:
    """Return a key as a literal."""
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a column's name in quotes."""
    return "`" + name.replace("`", "``") + "`"
