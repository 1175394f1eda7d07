"""The declaration of a setting: one field of a dataclass.

    retain: int = setting(2, "Number of completed checkpoints to keep.")

The field has the name, the type and the default. Everything that accepts or shows settings reads the
declaration: `rh.Environment`, settings files, command-line options, the settings of a job, and the page
of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting."""

    help: str
    """Help text. Its first sentence is the help of the option; the docs show all of it."""
    section: str = ""
    """Title of the section of the page of settings that begins with this setting."""
    option: str | None = None
    """Command-line option that sets it."""
    metavar: str | None = None
    """Placeholder of the value in the option's help."""
    variable: str | None = None
    """Environment variable that sets the option."""
    choices: tuple[str, ...] = ()
    least: int = 1
    """Smallest valid integer; for a duration, in ms."""
    fixed: bool = False
    """Whether a job must keep the value when it is restarted, because stored state depends on it."""
    secret: bool = False
    """Whether the value is a URL of which only the host may be shown."""
    group: type | None = None
    """Class that declares the parts, if the setting is a group."""
    name: str = ""
    """Name of the field; for a part of a group, "group.part"."""
    type: str = ""
    """Type of the field as written in the source, without None."""
    optional: bool = False
    """Whether None is a valid value."""
    default: Any = None


def setting(default: Any, help: str, **more: Any) -> Any:
    """Declare a setting as a field of a dataclass.

    Args:
        default: default value; `dict` for an empty mapping.
        help: what the setting does; see `Setting`, which also lists `more`.
    """
    declared = Setting(help, default=default, **more)
    value = {"default_factory": dict} if default is dict else {"default": default}
    return field(**value, repr=not declared.secret, metadata={"setting": declared})


def settings_of(declaring: type, prefix: str = "", section: str = "") -> Mapping[str, Setting]:
    """Return the settings of a dataclass by name; the parts of a group follow it."""
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
    """Append the help of its settings to the docstring of a dataclass."""
    lines = (f"    {name}: {each.help}" for name, each in settings_of(declaring).items())
    declaring.__doc__ = "\n".join([f"{declaring.__doc__}", "", "Args:", *lines])
    return declaring
