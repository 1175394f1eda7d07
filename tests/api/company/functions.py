"""Functions of the installed version of Polars, and those of them that return no expressions."""

from __future__ import annotations

import inspect

import polars as pl
from polars import col

NAMESPACES = ("str", "dt", "list", "arr", "struct", "bin", "cat", "name", "ext", "map")
_DUNDERS = (
    *("abs", "invert", "neg", "pos", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"),
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "radd", "rsub", "rmul"),
    *("rtruediv", "rfloordiv", "rmod", "rpow", "rand", "ror", "rxor"),
)
DUNDERS = frozenset(f"__{name}__" for name in _DUNDERS)

NO_EXPRESSIONS = frozenset(
    [
        # What asks about an expression, or reads one.
        *("Expr.deserialize", "pl.explain_all", "pl.collect_all", "pl.collect_all_async"),
        *("pl.escape_regex", "pl.select", "pl.defer"),
        # Types.
        *("pl.dtype_of", "pl.self_dtype", "pl.struct_with_fields", "pl.register_extension_type"),
        *("pl.unregister_extension_type", "pl.get_extension_type", "pl.get_index_type"),
        # Of frames.
        *("pl.align_frames", "pl.concat", "pl.union", "pl.merge_sorted", "pl.json_normalize", "pl.sql"),
        # Of the session.
        *("pl.build_info", "pl.show_versions", "pl.thread_pool_size", "pl.set_random_seed"),
        *("pl.disable_string_cache", "pl.enable_string_cache", "pl.using_string_cache"),
        "pl.delete_iceberg",
        # Of extension types, which no stream has.
        *("ext.storage", "ext.to"),
    ]
)
_OF_FRAMES = ("pl.read_", "pl.scan_", "pl.from_")


def functions_of_polars() -> set[str]:
    """Return every function that returns expressions, such as `Expr.abs`, `str.contains` or
    `pl.when`."""
    found = {f"Expr.{name}" for name in dir(pl.Expr) if name[0] != "_"}
    found |= {f"Expr.{name}" for name in DUNDERS | _operators()}
    for space in NAMESPACES:
        found |= {f"{space}.{name}" for name in dir(getattr(col("x"), space)) if name[0] != "_"}
    found -= {f"Expr.{space}" for space in (*NAMESPACES, "meta")}
    for name in pl.__all__:
        if inspect.isfunction(getattr(pl, name)) or name == "col":
            found.add(f"pl.{name}")
    return {
        name
        for name in found - NO_EXPRESSIONS
        if not name.startswith(_OF_FRAMES) or name == "pl.from_epoch"
    }


def namespaces_of_polars() -> set[str]:
    return {name for name in dir(pl.Expr) if isinstance(getattr(pl.Expr, name), property)} - {"meta"}


def _operators() -> set[str]:
    """Return the special methods that return an expression: those of Python's operators."""
    return {
        name
        for name, made in vars(pl.Expr).items()
        if name.startswith("__")
        and inspect.isfunction(made)
        and inspect.signature(made).return_annotation == "Expr"
        and name != "__array_ufunc__"
    }
