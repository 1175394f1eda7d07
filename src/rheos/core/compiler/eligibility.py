"""The decision whether an unmarked function may be compiled, and the line that prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from rheos.core.callables import function_name
from rheos.core.compiler.forms import CALL, called_method
from rheos.core.compiler.kernel import Typing, loops_of
from rheos.core.compiler.source_checks import is_source_of
from rheos.core.compiler.values import CannotCompile
from rheos.core.errors import ProgramError, Site
from rheos.core.graph.compilation import MethodText
from rheos.core.state.columnar.string_codes import StringCodes


@dataclass(frozen=True)
class Refusal:
    """The reason why a function is not compiled, and the line that prevents it."""

    what: str
    site: Site | None = None

    def __str__(self) -> str:
        return self.what if self.site is None else f"{self.site}: {self.what}"


Automatic = dict[str, MethodText] | Refusal | None
"""Source of the methods of an unmarked function that is compiled while it runs, or the reason why it is
not. None if nobody has asked for it."""

NO_COMPILER = Refusal("no compiler is installed: pip install 'rheos[compiled]'")


def compilable_methods(function: Any, typing: Typing) -> dict[str, MethodText] | Refusal:
    """Return the source of the methods of a function that can be compiled, or else the reason why it
    cannot."""
    if find_spec("numba") is None:
        return NO_COMPILER
    try:
        methods = typing.form.texts(function)
        for name, text in methods.items():
            _check_source(function, name, text)
        loops_of(function, methods, typing, StringCodes())
    except CannotCompile as refused:
        return Refusal(refused.what, Site(refused.file, refused.line))
    except ProgramError as error:
        return Refusal(error.what, error.site)
    return methods


def form_of(automatic: Automatic) -> str:
    """Return whether an unmarked function is compiled, or why it is interpreted; an empty string if a
    plan does not show that."""
    if isinstance(automatic, Mapping):
        return "compiled"
    if automatic is None or automatic == NO_COMPILER:
        return ""
    return f"interpreted: {automatic}"


def named_form(function: Any, automatic: Automatic) -> dict[str, str]:
    """Return the form of an unmarked function by its name. The program's own setting is the reason if
    nobody has asked for the compiled form."""
    return {function_name(function): form_of(automatic) or "interpreted: the setting compiled=False"}


def summary_of(automatic: Automatic) -> str:
    """Return the end of an operator's summary, which shows the form of an unmarked function."""
    form = form_of(automatic)
    return f"; {form}" if form else ""


def _check_source(function: Any, name: str, text: MethodText) -> None:
    """Raise ProgramError unless this is the source of the method that a call would execute."""
    site = Site(text.file, text.first_line)
    if name in getattr(function, "__dict__", ()) and name != CALL:
        raise ProgramError(f"{name} is replaced by an attribute of the object", site=site)
    method = called_method(function, name)
    name = method.__name__
    if hasattr(method, "__wrapped__") or not is_source_of(text, method):
        raise ProgramError(f"the source of {name} differs from the code that runs", site=site)
