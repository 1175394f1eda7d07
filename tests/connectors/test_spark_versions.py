"""Only one module knows that versions of Spark differ, and all others run on each of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import types as sql

from rheos.connectors.spark import versions
from tests.source_trees import SOURCES, source_trees

OURS = SOURCES / "connectors" / "spark" / "versions.py"

_OF_ONE_VERSION = ("spark.sql.classic", "pyspark.sql.classic")
"""Packages that only some versions have."""
_SPARK = {"spark", "session", "context", "_context", "_session", "sc", "pyspark", "sparkContext"}


def named(node: ast.expr) -> str:
    """Return the last name of an expression such as `self._context`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def asks_for_a_version(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="__version__" | "version"):
            return named(owner) in _SPARK
        case ast.ImportFrom(module=str(module)) if module.startswith("pyspark.version"):
            return True
        case ast.Call(func=function, args=[ast.Constant(value="pyspark")]):
            return named(function) in ("version", "metadata", "distribution")
        case ast.Constant(value=str(text)):
            return any(part in text for part in _OF_ONE_VERSION)
        case ast.Attribute(attr="classic") | ast.alias(name="PySparkException"):
            return True
        case ast.Attribute(value=ast.Attribute(attr="conf"), attr="getAll"):
            return True
    return False


def test_no_other_module_checks_the_version_of_spark() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path, tree in source_trees().items()
        if path != OURS
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt | ast.alias) and asks_for_a_version(node)
    ]
    assert found == [], "move it into rheos.connectors.spark.versions"


@pytest.mark.parametrize(
    "text",
    [
        "pyspark.__version__ >= '4'",
        "self._context.version",
        "metadata.version('pyspark')",
        "from pyspark.version import __version__",
        "jvm.org.apache.spark.sql.classic.Dataset",
        "getattr(jvm, 'org.apache.spark.sql.classic.Dataset')",
        "session.conf.getAll",
        "from pyspark.errors import PySparkException",
    ],
)
def test_the_scan_finds_checks_of_the_version(text: str) -> None:
    assert any(map(asks_for_a_version, ast.walk(ast.parse(text))))


def spark_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Return the names of PySpark that a module uses, each with the module or class that has it."""
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("pyspark"):
                for each in names:
                    yield module, each.name
                    owner = getattr(importlib.import_module(module), each.name, None)
                    known[each.asname or each.name] = f"{module}.{each.name}" if owner else None
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if known.get(name):
                yield known[name], attribute


def exists(owner: str, name: str) -> bool:
    try:
        found: Any = importlib.import_module(owner)
    except ImportError:
        module, _, last = owner.rpartition(".")
        found = getattr(importlib.import_module(module), last)
    if hasattr(found, name):
        return True
    try:
        importlib.import_module(f"{owner}.{name}")
    except ImportError:
        return False
    return True


def test_the_installed_version_has_every_name_that_is_used() -> None:
    """Run on the oldest version, this finds a function that only newer ones have."""
    used = {
        (owner, name): path.relative_to(SOURCES)
        for path, tree in source_trees().items()
        if path != OURS
        for owner, name in spark_names(tree)
    }
    assert len(used) > 50
    missing = {
        f"{path}: {owner}.{name}" for (owner, name), path in used.items() if not exists(owner, name)
    }
    assert missing == set()


def test_a_type_exists_exactly_since_its_stated_version() -> None:
    installed = tuple(map(int, versions.installed().split(".")[:2]))
    for name, first in versions.FIRST_WITH.items():
        assert hasattr(sql, name) == (installed >= tuple(map(int, first.split("."))))


_METHODS = {"repartitionById", "toArrow"}
"""Methods of DataFrame that Spark 3.5 lacks. Types do not show whose method a call is, so they have
names here."""


def test_no_method_of_later_versions_is_called_directly() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path, tree in source_trees().items()
        if path != OURS
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _METHODS
    ]
    assert found == [], "move it into rheos.connectors.spark.versions"


@pytest.mark.spark
def test_rows_go_to_the_partition_of_their_id_in_every_version(spark: Any) -> None:
    class Old:
        """A frame without the method of newer versions."""

        def __init__(self, frame: Any) -> None:
            self.repartition = frame.repartition

    frame = spark.range(0, 70, 1, 3).selectExpr("cast(id % 7 as int) as share")
    for each in (frame, Old(frame)):
        moved: Any = versions.repartition_by_id(each, 7, "share")
        parts = moved.selectExpr("share", "spark_partition_id() as part").distinct().collect()
        assert sorted((row.share, row.part) for row in parts) == [(n, n) for n in range(7)]


@pytest.mark.spark
def test_settings_are_all_those_of_the_session(spark: Any) -> None:
    session = spark.newSession()
    session.conf.set("rheos.test.setting", "7")
    found = versions.settings(session)
    assert found["rheos.test.setting"] == "7"
    assert found["spark.master"] == spark.sparkContext.master
    assert versions.jvm_class(session, "SparkSession").getActiveSession().isDefined()
