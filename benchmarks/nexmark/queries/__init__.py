"""The queries, each in a file of its own: the program, and the SQL that says what it must find."""

from importlib import import_module

from benchmarks.nexmark.query import Query

QUERIES: dict[str, Query] = {
    f"q{number}": import_module(f"{__name__}.q{number}").QUERY for number in range(23)
}
