"""Registries of plug-ins: connectors and formats that other distributions add by entry points.

A registration is data: it names modules and functions without importing them. A table lists the
registrations of Rheos itself, so that finding a built-in name needs no scan of the environment. All
other names are looked up among the entry points of the installed distributions. A broken distribution,
or one that claims a built-in name, causes an error only if its name is used.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, distributions, entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, TypeVar

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.safe_strings import named_error

BUILT_IN = "rheos"
"""Distribution of the registrations that are part of Rheos."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A description of a plug-in, available before the plug-in is imported."""

    name: str
    """Name that users write: a lower-case identifier, the same as the name of the entry point."""
    title: str
    """Name of the system or the format for people, such as "Apache Kafka"."""
    requires: Sequence[str] = ()
    """Modules of the client library. `client` returns the first one."""
    install: str = ""
    """Argument for `pip install` that installs these modules, such as `rheos[kafka]`."""
    imports: Sequence[str] = ()
    """Slow modules of other packages that are imported when the plug-in is first used."""
    docs: str = ""
    """Documentation page: a path below `docs/`, or a URL."""

    def client(self) -> ModuleType:
        """Import the client library, and return its module.

        Returns:
            The module.

        Raises:
            ConfigurationError: the library cannot be imported. The hint names the package to install.
        """
        try:
            modules = [importlib.import_module(module) for module in self.requires]
        except Exception as error:  # A library may raise its own errors while it is imported.
            raise self.not_installed(error) from None
        return modules[0]

    def not_installed(self, error: BaseException) -> ConfigurationError:
        """Return the error for a client library that cannot be imported.

        Args:
            error: The error of the import.

        Returns:
            The error, with what to install as its hint.
        """
        return ConfigurationError(
            f"the client library of {self.title} cannot be loaded: {error}",
            hint=f"{sys.executable} -m pip install '{self.install}', on the driver and on every worker",
        )

    def is_installed(self) -> bool:
        """Return whether the client library is installed, without importing it."""
        try:
            return all(find_spec(module.partition(".")[0]) for module in self.requires)
        except (ImportError, ValueError):
            return False


R = TypeVar("R", bound=Registration)


@dataclass(frozen=True)
class RegistryEntry(Generic[R]):
    """One entry of a registry: a registration, or the error that prevents its use."""

    name: str
    distribution: str
    """Name and version of the distribution that declares it."""
    registration: R | None
    error: RheosError | None = None


@dataclass(frozen=True)
class PlugInRegistry(Generic[R]):
    """The registrations of one kind of plug-in."""

    kind: type[R]
    what: str
    """Kind of plug-in for people: "connector"."""
    group: str
    """Entry-point group in which other distributions declare their plug-ins."""
    built_in: Mapping[str, str] = field(repr=False)
    """Registrations that are part of Rheos, as `module:attribute` by name."""
    namespace: str
    """Module that gets the plug-in as an attribute. Plug-ins cannot have names that the module
    defines."""

    def find(self, name: str) -> R | None:
        """Return the registration of a name; None if no distribution has one.

        Raises:
            ConfigurationError: the plug-in is broken, or its name is taken. The error names its
                distribution.
        """
        if name in self.built_in:
            return self._loaded(EntryPoint(name, self.built_in[name], self.group))
        found = self._by_name.get(name)
        return None if found is None else self._checked(name, found)

    def imported(self, registration: R, path: str) -> Any:
        """Import and return the module or `module:attribute` that a registration names.

        Raises:
            ConfigurationError: the import failed. If a client library is missing, the hint tells how to
                install it; otherwise the error names the distribution.
        """
        module, _, name = path.partition(":")
        try:
            found = importlib.import_module(module)
            return getattr(found, name) if name else found
        except RheosError:
            raise
        except (Exception, SystemExit) as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing in {each.partition(".")[0] for each in registration.requires}:
                raise registration.not_installed(error) from None
            entries = self._by_name.get(registration.name, ())
            entry = next(iter(entries), EntryPoint(registration.name, path, self.group))
            raise self._broken(entry, f"cannot be used: {named_error(error)}") from error

    def names(self) -> list[str]:
        """Return all names, those of Rheos first. Nothing is imported."""
        return [*self.built_in, *(name for name in sorted(self._by_name) if name not in self.built_in)]

    def plug_in_names(self) -> list[str]:
        """Return the valid names that other distributions declare."""
        return [name for name in self._by_name if self._conflict_of(name) is None]

    def registered(self) -> list[RegistryEntry[R]]:
        """Return one entry for each built-in name, and for each name that a distribution declares."""
        listed = [RegistryEntry(name, BUILT_IN, self.find(name)) for name in self.built_in]
        for name, found in sorted(self._by_name.items()):
            for each in found:
                try:
                    shown = RegistryEntry(name, _distribution(each), self._checked(name, found))
                except RheosError as error:
                    shown = RegistryEntry(name, _distribution(each), None, error)
                listed.append(shown)
        return listed

    @cached_property
    def _by_name(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of other distributions by name. Python reads their metadata once."""
        found: dict[str, list[EntryPoint]] = {}
        for each in _entry_points(self.group):
            if each.dist is None or each.dist.name != BUILT_IN:
                found.setdefault(each.name, []).append(each)
        return found

    def _checked(self, name: str, found: Sequence[EntryPoint]) -> R:
        first, *others = found
        problem = self._conflict_of(name)
        if problem is None and others:
            problem = f"so does {_distribution(others[0])}"
        if problem is None and not (name.isidentifier() and name == name.lower()):
            problem = "a name must be a lower-case identifier"
        if problem is not None:
            raise ConfigurationError(
                f"{_distribution(first)} registers a {self.what} named {name!r}: {problem}",
                hint=f"uninstall it, or ask its author for another name in {self.group!r}",
            )
        return self._loaded(first)

    def _conflict_of(self, name: str) -> str | None:
        """Return the reason why a plug-in cannot use the name; None if it can."""
        if name in self.built_in:
            return f"Rheos already has a {self.what} of this name"
        module, full = importlib.import_module(self.namespace), f"{self.namespace}.{name}"
        if name in getattr(module, "__all__", ()) or name in vars(module) or find_spec(full):
            return f"{full} is a name of Rheos itself"
        return None

    def _loaded(self, found: EntryPoint) -> R:
        """Load the registration that an entry point refers to. Every error names the distribution."""
        try:
            loaded: Any = found.load()
        except (Exception, SystemExit) as error:
            raise self._broken(found, f"cannot be loaded: {named_error(error)}") from error
        if not isinstance(loaded, self.kind):
            raise self._broken(found, f"is a {type(loaded).__name__}, not a {self.kind.__name__}")
        if loaded.name != found.name:
            raise self._broken(found, f"is named {loaded.name!r}")
        return loaded

    def _broken(self, found: EntryPoint, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"the {self.what} {found.name!r} of {_distribution(found)} {problem}",
            hint=f"upgrade {_distribution(found).partition(' ')[0]}, or uninstall it; "
            f"its entry point in {self.group!r} is {found.value}",
        )


def _entry_points(group: str) -> Iterator[EntryPoint]:
    """Return the entry points of a group. Distributions whose metadata cannot be read are skipped."""
    try:
        yield from entry_points(group=group)
    except Exception:
        seen: set[str] = set()
        for each in distributions():
            with contextlib.suppress(Exception):
                if each.name not in seen:
                    seen.add(each.name)
                    yield from each.entry_points.select(group=group)


def _distribution(found: EntryPoint) -> str:
    return BUILT_IN if found.dist is None else f"{found.dist.name} {found.dist.version}"
