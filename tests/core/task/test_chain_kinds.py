"""The class of a chain determines its parts, so no chain asserts that a part exists."""

from __future__ import annotations

import ast
import inspect

from rheos.core.task.chain import ChainRunner
from rheos.core.task.input_chain import AheadChain, InputChain, LoopHeadChain
from rheos.core.task.source_chain import SourceChain


def kinds(kind: type[ChainRunner]) -> list[type[ChainRunner]]:
    return [kind, *(each for below in kind.__subclasses__() for each in kinds(below))]


def test_no_chain_asserts_that_a_part_is_not_none() -> None:
    found = kinds(ChainRunner)
    assert {SourceChain, InputChain, LoopHeadChain, AheadChain} <= set(found)
    for kind in found:
        for node in ast.walk(ast.parse(inspect.getsource(kind))):
            if isinstance(node, ast.Assert):
                compared = [each for each in ast.walk(node) if isinstance(each, ast.Is | ast.IsNot)]
                assert not compared, f"{kind.__name__}: {ast.unparse(node)}"
