"""A folder of `.sql` files as one job. Each statement runs after those that define the tables it reads.

A file that contains a single query defines a view by the name of the file: `models/slow.sql`, with
SELECT alone, is the table `slow` of the other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.sql.dialect import parse
from rheos.sql.model_parser import CreateModel, ModelArgument
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.session import SqlSession


@dataclass(frozen=True, eq=False)
class FolderStatement:
    """A statement of a file."""

    sql: SqlText
    node: exp.Expr
    defines: str | None
    """Table or model that it defines, in lower case."""
    model: str | None = None
    """Name of the file, if the file is this query alone."""

    def reads(self) -> Iterator[tuple[str, exp.Expr]]:
        """Return the tables and models that the statement names, in lower case, and their places."""
        here = {each.alias.casefold() for each in self.node.find_all(exp.CTE)}
        own = self.node.find(exp.Table) if isinstance(self.node, exp.Create | CreateModel) else None
        for each in self.node.find_all(exp.Table):
            name = each.name.casefold()
            if isinstance(each.parent, ModelArgument):
                yield _model(name), each
            elif isinstance(each.this, exp.Identifier) and name not in here and each is not own:
                yield name, each


def run_folder(session: SqlSession, folder: Path) -> None:
    """Execute all statements. Raises ProgramError, SchemaError with the file and its line,
    ConfigurationError if there are no files."""
    files = sorted(folder.rglob("*.sql"))
    if not files:
        raise ConfigurationError(
            f"the folder {str(folder)!r} has no files of SQL",
            hint="pass a file, or a folder of .sql files",
        )
    statements = [each for file in files for each in _statements(file)]
    session.prepare(each.node for each in statements)
    for each in in_order(statements):
        if each.model is None:
            session.carry_out(each.sql, each.node)
        else:
            session.model(each.sql, each.model, each.node)
    session.write()


def _statements(file: Path) -> Iterator[FolderStatement]:
    try:
        sql = SqlText(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the SQL file {str(file)!r} cannot be read: {error}", hint="store it as UTF-8"
        ) from None
    parsed = parse(sql)
    for node in parsed:
        if isinstance(node, exp.Query) and len(parsed) == 1:
            yield FolderStatement(sql, node, file.stem.casefold(), file.stem)
        elif isinstance(node, exp.Create) and (named := node.find(exp.Table)) is not None:
            yield FolderStatement(sql, node, named.name.casefold())
        elif isinstance(node, CreateModel):
            yield FolderStatement(sql, node, _model(node.this.name.casefold()))
        else:
            yield FolderStatement(sql, node, None)


def _model(name: str) -> str:
    """Return the name under which a model is ordered; a table may have the same one."""
    return f"model {name}"


def in_order(statements: Sequence[FolderStatement]) -> list[FolderStatement]:
    """Order the statements: SET first, then each after those that define the tables it reads, otherwise
    in the original order. Raises ProgramError if a table is defined twice, or by itself."""
    by_name: dict[str, FolderStatement] = {}
    for each in statements:
        if each.defines is None:
            continue
        if (other := by_name.setdefault(each.defines, each)) is not each:
            raise each.sql.error(
                f"the table {each.defines!r} already exists, in {other.sql.file}",
                each.node,
                "choose another name",
            )
    done: dict[int, FolderStatement] = {}
    below: list[str] = []

    def add(statement: FolderStatement) -> None:
        if id(statement) in done:
            return
        if statement.defines is not None:
            below.append(statement.defines)
        for name, at in statement.reads():
            if name in below:
                raise _cycle(statement, [*below[below.index(name) :], name], at)
            if name in by_name:
                add(by_name[name])
        if statement.defines is not None:
            below.pop()
        done[id(statement)] = statement

    for each in sorted(statements, key=lambda each: not isinstance(each.node, exp.Set)):
        add(each)
    return [*done.values()]


def _cycle(statement: FolderStatement, names: Sequence[str], at: exp.Expr) -> ProgramError:
    return statement.sql.error(
        f"a table depends on itself: {' reads '.join(names)}", at, "leave one of these out"
    )
