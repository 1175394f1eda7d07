"""Docstrings, comments, errors and pages are in plain English, and get plainer: counts may only fall.

The rules look for the worst alone. A docstring of a function begins with a verb, one of a class or an
attribute with a noun. So none opens with a word of `OPENINGS`, except those in the file
`language_exceptions.txt`, which were there before the rule: it may only shrink. `TURNS` are turns of
phrase that readers stumble over; a text may still need one, so only their number is limited.

The pages also limit the number of sentences of more than `MOST_WORDS` words.

After a change that removes some: `python -m tests.test_language` rewrites the list and prints the
numbers.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.source_trees import source_trees

ROOT = Path(__file__).parents[1]
EXCEPTIONS = Path(__file__).with_name("language_exceptions.txt")

OPENINGS = re.compile(r"(Of|Those|That|What|Where|Which)\b(?!.*\?)")

TURNS = re.compile(
    r"\b(is|are|was|be|been|as) said\b|\bnothing is said\b|\bsays (so|it|how|what|which|whether)\b"
    r"|\bgives? (again|back|it|them|the|a|an|one|what|no|none|its|rows)\b"
    r"|\bbehind\b|\bbeside\b|\bstands?\b|\bstood\b|\b(lies|lie|lay)\b"
    r"|\bso (many|long|often|few|much)\b(?! (that|as))"
    r"|\b(is|are|has|have|gives|was) (none|no more|nothing)\b"
    r"|\b(a|the|its|as|of) texts?\b|\b(is|are|was|be) told\b|\bthere yet\b"
    r"|\b(anyhow|thereby|therein|thereof|as yet|save for|apart from that)\b"
    r"|\bheld to\b|\bgo(es)? by\b|\bc[ao]mes? of\b|\bbecomes of\b|\bFor those who\b"
)

LIMITS = {"docstrings": 36, "comments": 7, "errors": 0, "pages": 61}
"""Maximum number of texts of each kind with a turn, which may only be lowered."""


def docstrings_in(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """The name and the docstring of a definition or an attribute, and of all within it."""
    before = name
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            if isinstance(part.value.value, str):
                yield before, " ".join(part.value.value.split())
            continue
        before = name
        if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstrings_in(part, f"{name}.{part.name}")
            continue
        if isinstance(part, ast.AnnAssign | ast.Assign):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            before = f"{name}.{ast.unparse(target)}"
        yield from docstrings_in(part, name)


@cache
def docstrings() -> list[tuple[str, str]]:
    """The docstrings of the sources, each with `file:name`."""
    return [
        (f"{path.name}:{name.lstrip('.') or 'module'}", text)
        for path, tree in source_trees().items()
        for name, text in docstrings_in(tree, "")
    ]


def comments() -> Iterator[str]:
    for path in source_trees():
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("# ")


def errors() -> Iterator[str]:
    for tree in source_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                for part in ast.walk(node.exc):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value


def pages() -> Iterator[str]:
    """The lines of the docs, without those of code."""
    for path in [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        in_code = False
        for line in path.read_text().splitlines():
            in_code ^= line.startswith("```")
            if not in_code:
                yield line


MOST_WORDS = 30
MOST_LONG_SENTENCES = 71
"""Maximum number of sentences of pages with more than `MOST_WORDS` words; it may only be lowered."""

_UNREAD = re.compile(r"<!--.*?-->|```.*?```|~~~.*?~~~", re.DOTALL)
_NEW_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+|>#]|\d+\.) ?)|(?<!\\)\|")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[A-Z(*\"\[])")


def long_sentences() -> Iterator[str]:
    """Yield the sentences of more than `MOST_WORDS` words, without those of the decisions and of the
    lists that `scripts/tested` writes."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        if path.parent.name == "decisions" or path.name == "tested-with.md":
            continue
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", _UNREAD.sub("", path.read_text()))
        for paragraph in _NEW_PARAGRAPH.split(re.sub(r"`[^`\n]*`", "CODE", text)):
            for sentence in _END.split(" ".join(paragraph.split())):
                if sum(bool(re.search(r"\w", word)) for word in sentence.split()) > MOST_WORDS:
                    yield f"{path.relative_to(ROOT)}: {sentence}"


@cache
def counted() -> dict[str, int]:
    texts = {
        "docstrings": (text for _, text in docstrings()),
        "comments": comments(),
        "errors": errors(),
        "pages": pages(),
    }
    return {kind: sum(bool(TURNS.search(text)) for text in of) for kind, of in texts.items()}


@cache
def badly_opened() -> Counter[str]:
    return Counter(place for place, text in docstrings() if OPENINGS.match(text))


def excepted() -> Counter[str]:
    lines = EXCEPTIONS.read_text().splitlines()
    return Counter(line for line in lines if line and not line.startswith("#"))


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    new = badly_opened() - excepted()
    assert not new, "begin these docstrings with a verb (functions) or a noun (classes, attributes)"


@pytest.mark.parametrize("kind", LIMITS)
def test_counts_of_unclear_phrases_only_fall(kind: str) -> None:
    assert counted()[kind] <= LIMITS[kind], (
        f"{counted()[kind]} {kind} have a turn of TURNS, and {LIMITS[kind]} may: rewrite the new ones"
    )


def test_the_number_of_long_sentences_on_pages_only_falls() -> None:
    long = list(long_sentences())
    assert len(long) <= MOST_LONG_SENTENCES, "split a sentence of a page that you have written"


def test_the_rules_find_unclear_phrases() -> None:
    assert OPENINGS.match("Of each of its rows whether it is.")
    assert not OPENINGS.match("Whether the row is late.")
    assert TURNS.search("the bytes behind it")
    assert not TURNS.search("the bytes after it")
    assert list(docstrings_in(ast.parse('class A:\n    b: int\n    """Of c."""'), "")) == [
        (".A.b", "Of c.")
    ]


if __name__ == "__main__":
    head = "# Openings of docstrings that are older than the rule: delete lines only.\n"
    left = sorted((badly_opened() & excepted() if EXCEPTIONS.exists() else badly_opened()).elements())
    EXCEPTIONS.write_text(head + "".join(f"{place}\n" for place in left))
    print(counted())
