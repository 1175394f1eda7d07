"""CREATE FUNCTION name AS 'module.function' LANGUAGE PYTHON."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.functions import RichFunction
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.session import SqlSession

_EXAMPLE = "write CREATE FUNCTION dollars AS 'my_functions.dollars' LANGUAGE PYTHON"


def create_function(sql: SqlText, session: SqlSession, node: exp.Create) -> None:
    """Register a function of a Python module. Raises ProgramError at its place in the SQL."""
    parts = ("this", "kind", "expression", "properties", "exists", "replace")
    sql.only(node, parts, " of CREATE FUNCTION")
    properties = node.args.get("properties")
    for each in properties.expressions if properties is not None else []:
        if isinstance(each, exp.LanguageProperty):
            if each.name.upper() != "PYTHON":
                raise sql.error(f"functions must be in Python, not in {each.name}", each, _EXAMPLE)
        elif not isinstance(each, exp.TemporaryProperty):
            raise sql.not_computed(each)
    path = node.expression
    if not isinstance(node.this, exp.Table) or not isinstance(path, exp.Literal) or not path.is_string:
        raise sql.error("a function must be in a Python module", node, _EXAMPLE)
    functions, folded = session.catalog.functions, node.this.name.casefold()
    if node.args.get("exists") and folded in functions:
        return
    fn = imported(sql, path, _EXAMPLE)
    if isinstance(fn, type) and issubclass(fn, AggregateFunction | RichFunction):
        fn = fn()
    if node.args.get("replace"):
        functions.pop(folded, None)
    try:
        session.register_function(node.this.name, fn)
    except ProgramError as error:
        raise sql.error(error.what, path, error.hint) from None


def imported(sql: SqlText, path: exp.Expr, example: str) -> Any:
    """Return the object of a module that a string such as 'my_functions.dollars' names. Raise
    ProgramError, with an example of what to write."""
    module, _, name = path.name.rpartition(".")
    if not module:
        raise sql.error(f"{path.name!r} does not contain a module name", path, example)
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise sql.error(
            f"the module {module!r} cannot be imported: {error}",
            path,
            "put it in the folder of the script, or install it",
        ) from None
    try:
        return getattr(found, name)
    except AttributeError:
        raise sql.error(f"the module {module!r} has no {name!r}", path, example) from None
