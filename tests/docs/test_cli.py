"""The page of the command line has the sections that its declarations make.

To write them anew: python -m tests.docs.test_cli
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rheos.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
USED = re.compile(r"(?:^|`)rheos ([a-z][a-z-]*)((?: [^`\n#|&>]*)?)", re.MULTILINE)
"""A command in a block of a shell or in the text, and its arguments."""
PAGE = ROOT / "docs/cli.md"
MADE = re.compile(
    r"(?<=<!-- commands: made by tests/docs/test_cli.py -->\n).*?(?=<!-- end of commands -->)", re.S
)


def made() -> str:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    shown = [command for command in commands.values() if not command.hidden]
    names = ", ".join(f"[{command.name}](#rheos-{command.name})" for command in shown)
    return f"\n{names}\n\n" + "\n".join(section(command) for command in shown) + "\n"


def section(command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param for param in command.params if param.param_type_name == "option" and not param.hidden
    ]
    usage = " ".join(
        [f"rheos {command.name}", *map(placeholder, arguments), *(["[OPTIONS]"] * bool(options))]
    )
    lines = [f"## rheos {command.name}", "", f"`{usage}`", "", plain(command.help), ""]
    rows = [*((placeholder(of), of) for of in arguments), *((spelling(of), of) for of in options)]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|"]
        lines += [f"| `{cell(name)}` | {cell(meaning(of))} |" for name, of in rows] + [""]
    return "\n".join(lines)


def placeholder(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + "..." * (argument.nargs == -1)
    return name if argument.required else f"[{name.strip('[]')}]"


def spelling(option: Any) -> str:
    takes = (
        ""
        if option.is_flag
        else f" {option.metavar or option.name.strip('_').rpartition('_')[2].upper()}"
    )
    return "/".join([*option.opts, *option.secondary_opts]) + takes


def meaning(of: Any) -> str:
    more = []
    if of.envvar:
        more.append(f"Environment variable: `{of.envvar}`.")
    if of.default not in (None, False, (), []) and not callable(of.default):
        more.append(f"Default: `{getattr(of.default, 'value', of.default)}`.")
    return " ".join([plain(of.help or ""), *more])


def plain(text: str) -> str:
    """Help without the marks of Rich, in one line."""
    return " ".join(text.replace("\\[", "[").split())


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_lists_every_command_and_option() -> None:
    assert MADE.findall(PAGE.read_text()) == [made()], "write it: python -m tests.docs.test_cli"


def test_every_command_and_option_has_a_meaning() -> None:
    for command in get_command(app).commands.values():  # type: ignore[attr-defined]
        assert command.help, command.name
        for param in command.params:
            assert param.help, f"{command.name}: {param.name}"


def unknown(text: str) -> list[str]:
    """Return the commands and options of a page that do not exist. A program's own follow `--`."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    wrong = []
    for name, arguments in USED.findall(text):
        if name not in commands:
            wrong.append(f"rheos {name}")
            continue
        options = {spelled for param in commands[name].params for spelled in param.opts}
        used = re.findall(r"(?<= )--[a-z][a-z-]*", arguments.partition(" -- ")[0])
        wrong += [f"rheos {name} {option}" for option in used if option not in {*options, "--help"}]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_that_a_page_shows_exist(page: Path) -> None:
    assert unknown(page.read_text()) == []


def test_an_unknown_option_is_found() -> None:
    text = "Write `rheos stop JOB --savepoint` or\nrheos run job.py --no -- --own\n`rheos dance`\n"
    assert unknown(text) == ["rheos run --no", "rheos dance"]


if __name__ == "__main__":
    PAGE.write_text(MADE.sub(lambda _: made(), PAGE.read_text()))
