"""Modules and classes are named by nouns, helpers by what they do, as far as lists of words can tell.

The last word of a name is its noun, so it is no participle, preposition, adverb or pronoun. The first
word of a module's name is no preposition. A name that is an exception has its reason here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.source_trees import SOURCES, source_trees


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PREPOSITIONS = words("""
    about above across after against ahead along among around at before behind below beneath
    beside between beyond by down for from in into of off on onto out outside over past per since
    through till to toward under until up upon via with within without and or but if as than
""")
ADVERBS = words("""
    again already also alone aside away back else elsewhere ever far here later less more most
    never not now often once only soon still then there today too twice very yet apart alike
""")
PRONOUNS = words("""
    a an the this that these those it its they them their all any both each either many most much
    neither none nothing one other others some such what which who whose whom why when where how
    own
""")
PARTICIPLES = words("""
    begun bought built come done drawn driven fallen felt found given gone grown heard held hidden
    kept known laid left lost made met paid risen said seen sent shown spelt spent stood taken
    thought told torn used written wound
""")
RIDDLES = PREPOSITIONS | ADVERBS | PRONOUNS | PARTICIPLES
SPEECH = {"said", "told", "whose"}
"""Names of values that say nothing about their contents."""
NOUNS = {"feed", "seed", "need", "speed", "bed"}
"""Nouns that end like a participle."""
NO_NOUNS = PREPOSITIONS | ADVERBS | PRONOUNS | PARTICIPLES

MODULES = {
    "cli/why": "the command `rheos why`",
    "cli/why_not": "the command `rheos why-not`",
    "core/checkpoint/available_now": "Spark's name of such a run",
    "connectors/calls/outside_calls": "outside is an adjective here",
    "core/operators/ahead_rows": "ahead is an adjective here, as in `max_ahead`",
    "core/operators/over": "SQL's keyword",
    "core/operators/over/changelog_over": "SQL's keyword",
    "core/operators/over/event_time_over": "SQL's keyword",
    "runtimes/health/kinds/outside_systems": "outside is an adjective here",
    "sql/over": "SQL's keyword",
    "core/task/in_flight_rows": "the term for rows between tasks",
    "runtimes/simulated": "a kind of runtime, as `continuous` and `batch` are",
}
EVENTS = (
    "core/checkpoint/events",
    "core/checkpoint/log_entries",
    "core/protocol/control",
    "ops/control/command_messages",
    "runtimes/batch/task_notes",
    "runtimes/continuous/control",
    "runtimes/continuous/control_server",
)
"""Modules of events, messages and entries, each named by what has happened."""
CLASSES = {
    "Accumulated": "public, and stored in users' state",
    "AvailableNow": "Spark's name of such a run",
    "Debugged": "public",
    "Decoded": "the result of a decoder, which formats of others use",
    "EventTimeOver": "SQL's keyword",
    "Found": "public",
    "Named": "a column of a scope, in most modules of `sql`",
    "LoadOnce": "the class of the public `load_once`",
    "Of": "a class of the program's own name",
    "Out": "the most frequent name of the operator contract",
    "PartitionBy": "SQL's keyword",
    "Remembered": "stored in users' state",
    "Simulated": "public",
    "Taken": "public",
    "TimeReached": "public",
    "Typed": "an expression with its type, in each function of the table of SQL functions",
    "WatermarkFor": "SQL's keyword",
    "GroupBy": "SQL's keyword",
}


def words_of(name: str) -> list[str]:
    """Return the words of a name in snake or camel case, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def is_noun(word: str) -> bool:
    """Return whether a word may be the last one of a name."""
    if word in NO_NOUNS or (word.endswith("ly") and word not in ("family", "reply")):
        return False
    return not word.endswith("ed") or word in NOUNS


def modules() -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each package and module."""
    for file in sorted(SOURCES.rglob("*.py")):
        path = file.parent if file.stem == "__init__" else file.with_suffix("")
        if path.name != "__main__":
            yield str(path.relative_to(SOURCES)), path.name


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield the syntax of each module with its path without suffix."""
    for file, tree in source_trees().items():
        yield str(file.relative_to(SOURCES).with_suffix("")), tree


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class with the path of its module. A protocol is named by what its classes do."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                yield path, node


def test_modules_are_named_by_nouns() -> None:
    bad = {
        path
        for path, name in modules()
        if not is_noun(words_of(name)[-1]) or words_of(name)[0] in PREPOSITIONS
    }
    assert bad == set(MODULES), "name these modules by what they contain"


def test_classes_are_named_by_nouns() -> None:
    bad = {
        node.name
        for path, node in classes()
        if path not in EVENTS and not is_noun(words_of(node.name)[-1])
    }
    assert bad == set(CLASSES), "name these classes by what their objects are"


def is_riddle(name: str) -> bool:
    """Return whether a helper's name is a single word that names neither an action nor a result."""
    return name.startswith("_") and not name.startswith("__") and name.strip("_") in RIDDLES


def test_helpers_are_named_by_what_they_do() -> None:
    bad = {
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_riddle(node.name)
    }
    assert not bad, "name these functions by a verb and its object, such as `_read_rows`"


def test_values_are_named_by_nouns_not_by_verbs_of_speech() -> None:
    bad = {
        f"{path}:{node.lineno} {node.id}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in SPEECH
    }
    assert not bad, "name these values by what they contain"


def test_the_rule_finds_riddles() -> None:
    assert [is_riddle(name) for name in ("_at", "_given", "_made", "_read_rows", "__or__", "of")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["emptied", "of_changes", "by_time", "Taken", "_Held", "SendTo"])
def test_the_rule_finds_names_without_a_noun(name: str) -> None:
    words = words_of(name)
    assert not is_noun(words[-1]) or words[0] in PREPOSITIONS


@pytest.mark.parametrize("name", ["feed", "table_sink", "WindowSpec", "HttpEndpoint"])
def test_the_rule_accepts_nouns(name: str) -> None:
    assert is_noun(words_of(name)[-1])
