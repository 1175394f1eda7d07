"""Errors about modules that Spark's Python workers lack."""

from __future__ import annotations

import re

from rheos.core.errors import ConfigurationError

_LACKS = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


def module_absent(module: str, python: str) -> ConfigurationError:
    """Return the error for a module that the job needs and that a worker's Python lacks."""
    return ConfigurationError(
        f"a worker's Python ({python}) has no module {module!r}",
        hint="set PYSPARK_PYTHON to the Python that has it, before the Spark session is created (on "
        'one machine, the driver\'s own: os.environ["PYSPARK_PYTHON"] = sys.executable); on a '
        "cluster, ship Rheos and your own modules with --py-files, and other packages with "
        "--archives, or install them on the executors",
    )


def module_lacking(text: str) -> ConfigurationError | None:
    """Translate Spark's error if a worker lacks a module before it can run a task of Rheos, such as
    PyArrow, which Spark itself needs."""
    found = _LACKS.search(text)
    return None if found is None else module_absent(found[1], _python_of_workers())


def _python_of_workers() -> str:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return "python3" if context is None else str(context.pythonExec)
