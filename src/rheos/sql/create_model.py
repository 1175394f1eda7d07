"""CREATE MODEL name INPUT (...) OUTPUT (...) WITH ('provider' = 'onnx', 'path' = '...')."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from rheos.core.errors import RheosError
from rheos.core.models.column_models import ColumnModel
from rheos.core.models.predictors import Onnx
from rheos.sql.catalog import DeclaredModel
from rheos.sql.connectors import add_option
from rheos.sql.create_function import imported
from rheos.sql.create_table import plain_columns
from rheos.sql.model_parser import CreateModel, DropModel
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.session import SqlSession

_EXAMPLE = (
    "write CREATE MODEL m INPUT (km DOUBLE) OUTPUT (minutes DOUBLE) "
    "WITH ('provider' = 'onnx', 'path' = 'minutes.onnx')"
)
_OF_PYTHON = "write 'provider' = 'python', 'function' = 'my_models.predict'"
_OPTIONS = {"onnx": "path", "python": "function"}
"""The option that names the model, by provider."""
_PICKLED = ("sklearn", "scikit-learn", "river", "pickle", "joblib", "xgboost", "lightgbm")
"""Providers whose files are pickles, or are loaded by a library."""
_WITHOUT_EFFECT = ("task",)
"""Options of Flink that do not change predictions."""
_CLAUSES = (exp.SchemaCommentProperty, exp.TemporaryProperty)


def create_model(sql: SqlText, session: SqlSession, node: CreateModel) -> None:
    """Make a model known to ML_PREDICT. Raise ProgramError or SchemaError at its place in the SQL."""
    models, name = session.catalog.models, node.this.name
    if name.casefold() in models and not node.args.get("replace"):
        if node.args.get("exists"):
            return
        hint = "choose another name, or write CREATE OR REPLACE MODEL"
        raise sql.error(f"the model {name!r} already exists", node.this, hint)
    inputs, outputs = (_columns(sql, node, part) for part in ("inputs", "outputs"))
    options = _options(sql, node)
    provider = options.pop("provider", None)
    if provider is None:
        raise sql.error("WITH does not name a provider", node.this, _EXAMPLE)
    kind = provider.name.lower()
    if kind in _PICKLED:
        raise sql.error(
            f"files of {provider.name} are not loaded, because loading them can run code",
            provider,
            f"export the model to ONNX; or load it in a module of yours, and {_OF_PYTHON}",
        )
    if kind not in _OPTIONS:
        raise sql.unknown("provider", provider.name, provider, [*_OPTIONS], "the providers are")
    wanted = _OPTIONS[kind]
    for option, value in options.items():
        if option not in (wanted, *_WITHOUT_EFFECT):
            known = [wanted, *_WITHOUT_EFFECT]
            raise sql.unknown("option", option, value, known, f"the options of {kind!r} are")
    if wanted not in options:
        raise sql.error(f"the option {wanted!r} is missing", provider, f"add '{wanted}' = '...'")
    at = options[wanted]
    model = ColumnModel(name, _loaded(sql, kind, at), inputs, outputs)
    try:
        model.check()
    except RheosError as error:
        raise sql.error(error.what, at, error.hint) from None
    models[name.casefold()] = DeclaredModel(model, kind, sql.statement(node))


def drop_model(sql: SqlText, session: SqlSession, node: DropModel) -> None:
    """Forget a model. Raise SchemaError if it does not exist."""
    models, name = session.catalog.models, node.this.name
    if models.pop(name.casefold(), None) is None and not node.args.get("exists"):
        raise unknown_model(sql, session.catalog.models, node.this)


def unknown_model(sql: SqlText, models: Mapping[str, DeclaredModel], at: exp.Expr) -> RheosError:
    """Return the error for a model that does not exist."""
    known = [each.model.name for each in models.values()]
    error = sql.unknown("model", at.name, at, known, "the models are")
    return error if known else sql.error(error.what, at, _EXAMPLE)


def _columns(sql: SqlText, node: CreateModel, part: str) -> pa.Schema:
    schema, word = node.args.get(part), part.upper().removesuffix("S")
    if not isinstance(schema, exp.Schema):
        raise sql.error(f"CREATE MODEL needs the columns of its {word}", node.this, _EXAMPLE)
    return plain_columns(sql, schema.expressions, schema)


def _options(sql: SqlText, node: CreateModel) -> dict[str, exp.Expr]:
    properties, options = node.args.get("properties"), dict[str, exp.Expr]()
    for each in [] if properties is None else properties.expressions:
        if isinstance(each, _CLAUSES):
            continue
        if type(each) is not exp.Property:
            raise sql.not_computed(each, "leave it out")
        add_option(sql, options, each, _EXAMPLE)
    return options


def _loaded(sql: SqlText, provider: str, at: exp.Expr) -> Any:
    """Return the predictor that an option names."""
    if provider == "python":
        return imported(sql, at, _OF_PYTHON)
    try:
        return Onnx.of_file(Path(at.name))
    except OSError as error:
        raise sql.error(
            f"the model cannot be read: {error.strerror}: {at.name}",
            at,
            "write the path of a file that was exported as .onnx",
        ) from None
    except RheosError as error:
        raise sql.error(error.what, at, error.hint) from None
