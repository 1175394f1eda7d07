"""Turns `match` into `if` statements, which have the same effect on scalars and tuples of scalars."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from rheos.core.compiler.values import CannotCompile

N = TypeVar("N", bound=ast.AST)


def subjects_of(node: ast.Match) -> list[ast.expr]:
    """Return the expressions that the patterns are compared with: the parts of a tuple, or one."""
    return node.subject.elts if isinstance(node.subject, ast.Tuple) else [node.subject]


def if_statements(node: ast.Match, names: Sequence[str]) -> list[ast.stmt]:
    """Return statements that do what `match` does, after its subjects were assigned to `names`.

    Patterns are constants, None, `_`, names, and tuples and alternatives of these. Raise CannotCompile
    for other patterns.
    """
    statements: list[ast.stmt] = []
    for case in reversed(node.cases):
        tests, bound = _tests(case.pattern, names, whole=isinstance(node.subject, ast.Tuple))
        if case.guard is not None:
            if bound:
                raise CannotCompile(
                    "a name in a pattern with `if` cannot be compiled", case.pattern.lineno
                )
            tests.append(case.guard)
        body = [*bound, *case.body]
        if not tests:
            statements = body
            continue
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        statements = [_set_position(case.pattern, ast.If(test, body, statements))]
    return statements


def _tests(
    pattern: ast.pattern, names: Sequence[str], *, whole: bool
) -> tuple[list[ast.expr], list[ast.stmt]]:
    """Return the conditions of a pattern, and the assignments that it makes."""
    match pattern:
        case ast.MatchAs(pattern=None, name=None):
            return [], []
        case ast.MatchSequence(patterns=patterns) if whole:
            if len(patterns) != len(names) or any(isinstance(each, ast.MatchStar) for each in patterns):
                raise CannotCompile("the pattern has another number of parts", pattern.lineno)
            tests: list[ast.expr] = []
            bound: list[ast.stmt] = []
            for each, name in zip(patterns, names, strict=True):
                more = _tests(each, [name], whole=False)
                tests += more[0]
                bound += more[1]
            return tests, bound
        case ast.MatchOr(patterns=patterns):
            each_of = [_tests(each, names, whole=whole) for each in patterns]
            if any(bound or not tests for tests, bound in each_of):
                raise CannotCompile("a name in alternatives cannot be compiled", pattern.lineno)
            joined = [
                tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests) for tests, _ in each_of
            ]
            return [_set_position(pattern, ast.BoolOp(ast.Or(), joined))], []
        case ast.MatchAs(pattern=None, name=str() as name) if not whole:
            target, value = ast.Name(name, ast.Store()), ast.Name(names[0], ast.Load())
            return [], [_set_position(pattern, ast.Assign([target], value))]
        case ast.MatchValue(value=value) if not whole:
            compared = ast.Compare(ast.Name(names[0], ast.Load()), [ast.Eq()], [value])
            return [_set_position(pattern, compared)], []
        case ast.MatchSingleton(value=None) if not whole:
            compared = ast.Compare(ast.Name(names[0], ast.Load()), [ast.Is()], [ast.Constant(None)])
            return [_set_position(pattern, compared)], []
    raise CannotCompile(f"the pattern {ast.unparse(pattern)} cannot be compiled", pattern.lineno)


def _set_position(place: ast.pattern, node: N) -> N:
    """Return the node and set the positions that it lacks to that of a pattern."""
    for each in ast.walk(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, place)
    return node
