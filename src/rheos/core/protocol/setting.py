"""The declaration of a setting: one field of a dataclass.

    retain: int = setting(2, "Number of completed checkpoints to keep.")

The field has the name, the type and the default. All that offers or shows settings reads the
declaration: `rh.Environment`, files of settings, options of the command, the settings that a job shows,
and the page of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Setting:
    """One setting, as it is declared."""

    help: str
    """The first sentence is the help of its option; all of it is in the docs."""
    section: str = ""
    """Section of the page of settings that begins with it."""
    option: str | None = None
    """Option of the command that sets it."""
    metavar: str | None = None
    """The value in the help of the option."""
    variable: str | None = None
    """Environment variable that sets the option."""
    choices: tuple[str, ...] = ()
    least: int = 1
    """Smallest valid whole number; for a duration, in ms."""
    fixed: bool = False
    """Whether a job must keep it when it is restarted: stored state depends on it."""
    secret: bool = False
    """Whether it is a URL of which only the host is shown."""
    group: type | None = None
    """Class that declares its parts, if it is a group of settings."""
    name: str = ""
    """Name of the field; for a part of a group, "group.part"."""
    type: str = ""
    """Type of the field, as it is written, without None."""
    optional: bool = False
    """Whether None is a value."""
    default: Any = None


def setting(default: Any, help: str, **more: Any) -> Any:
    """Declare a setting as a field of a dataclass.

    Args:
        default: default value; `dict` for an empty mapping.
        help: what it sets; see `Setting`, which also lists `more`.
    """
    declared = Setting(help, default=default, **more)
    value = {"default_factory": dict} if default is dict else {"default": default}
    return field(**value, repr=not declared.secret, metadata={"setting": declared})


def settings_of(declaring: type, prefix: str = "", section: str = "") -> Mapping[str, Setting]:
    """Return the settings of a dataclass by name; a group is followed by its parts."""
    found: dict[str, Setting] = {}
    for each in fields(declaring):
        declared, name, written = each.metadata["setting"], prefix + each.name, str(each.type)
        section = declared.section or section
        found[name] = replace(
            declared,
            name=name,
            section=section,
            type=written.removesuffix(" | None"),
            optional=written.endswith(" | None"),
        )
        if declared.group is not None:
            found |= settings_of(declared.group, f"{name}.", section)
    return found


def documented(declaring: Kind) -> Kind:
    """Add the help of its settings to the docstring of a dataclass."""
    lines = (f"    {name}: {each.help}" for name, each in settings_of(declaring).items())
    declaring.__doc__ = "\n".join([f"{declaring.__doc__}", "", "Args:", *lines])
    return declaring
