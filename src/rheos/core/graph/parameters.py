"""Parameters of a job: named values from outside, which methods read as the wanted type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, overload

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.known_names import names_hint
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.sizes import size_bytes

T = TypeVar("T")
_Int: TypeAlias = int
_Float: TypeAlias = float
_Bool: TypeAlias = bool
"""Alias of `bool`: inside the class, this name is a method."""

_MISSING: Any = object()
_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False}


class Parameters(Mapping[str, Any]):
    """Values by name. A command line's values are strings, so methods convert them to the wanted type:

    ```python
    env = rh.Environment(parameters={"threshold": 10, "region": "eu"})
    env.parameters.int("threshold")
    env.parameters.text("region", default="us")
    ```

    A parameter that is missing, or cannot be converted to the type, raises ConfigurationError.
    """

    def __init__(self, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        for name in values:
            if not isinstance(name, str) or not name.strip():
                raise ProgramError(f"the name of a parameter must be a non-empty string, not {name!r}")
        self._values = dict(values)
        self.over: Mapping[str, Any] = {}
        """Values from the command line, which override the program's own."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            known = names_hint(name, sorted(self._values), "the parameters are")
            raise ConfigurationError(
                f"the job has no parameter {name!r}",
                hint=f"{known}; set it with rh.Environment(parameters={{{name!r}: ...}}), or `rheos "
                f"run --param {name}=...`",
            )
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the unconverted value of a parameter.

        Args:
            name: The parameter.
            default: The value if the parameter is missing.

        Returns:
            The value; a string if it comes from the command line.
        """
        return self._values.get(name, default)

    def __contains__(self, name: object) -> _Bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> _Int:
        return len(self._values)

    def __repr__(self) -> str:
        """Return the names only: the values may be secrets."""
        return f"Parameters({', '.join(self._values)})"

    def merged(self, others: Mapping[str, Any]) -> Parameters:
        """Return these parameters and others, which take precedence.

        Args:
            others: The other parameters, by name.

        Returns:
            New parameters.
        """
        merged = Parameters({**self._values, **others})
        merged.over = dict(others)
        return merged

    @overload
    def text(self, name: str) -> str: ...
    @overload
    def text(self, name: str, default: T) -> str | T: ...
    def text(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter as a string.

        Args:
            name: The parameter.
            default: The value if the parameter is missing. Without it, a missing parameter is an error.

        Returns:
            The string.

        Raises:
            ConfigurationError: The parameter is missing, or is not a string.
        """
        return self._read(name, default, "a string", _text)

    @overload
    def int(self, name: str) -> _Int: ...
    @overload
    def int(self, name: str, default: T) -> _Int | T: ...
    def int(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter as a whole number: 5 or "5".

        Args:
            name: The parameter.
            default: The value if the parameter is missing. Without it, a missing parameter is an error.

        Returns:
            The number.

        Raises:
            ConfigurationError: The parameter is missing, or is not a whole number.
        """
        return self._read(name, default, "an integer", _whole)

    @overload
    def float(self, name: str) -> _Float: ...
    @overload
    def float(self, name: str, default: T) -> _Float | T: ...
    def float(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter as a number: 0.5 or "0.5".

        Args:
            name: The parameter.
            default: The value if the parameter is missing. Without it, a missing parameter is an error.

        Returns:
            The number.

        Raises:
            ConfigurationError: The parameter is missing, or is not a number.
        """
        return self._read(name, default, "a number", _number)

    @overload
    def bool(self, name: str) -> _Bool: ...
    @overload
    def bool(self, name: str, default: T) -> _Bool | T: ...
    def bool(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter as True or False.

        Args:
            name: The parameter.
            default: The value if the parameter is missing. Without it, a missing parameter is an error.

        Returns:
            The truth value.

        Raises:
            ConfigurationError: The parameter is missing, or is neither true nor false.
        """
        return self._read(name, default, "true or false", _truth)

    @overload
    def duration_ms(self, name: str) -> _Int: ...
    @overload
    def duration_ms(self, name: str, default: T) -> _Int | T: ...
    def duration_ms(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter that is a duration, such as "5s".

        Args:
            name: The parameter.
            default: The value in ms if the parameter is missing. Without it, a missing parameter is an
                error.

        Returns:
            The duration in ms.

        Raises:
            ConfigurationError: The parameter is missing, or is not a duration.
        """
        return self._read(name, default, 'a duration, such as "5s"', duration_ms)

    @overload
    def size_bytes(self, name: str) -> _Int: ...
    @overload
    def size_bytes(self, name: str, default: T) -> _Int | T: ...
    def size_bytes(self, name: str, default: Any = _MISSING) -> Any:
        """Return a parameter that is a size, such as "64MiB".

        Args:
            name: The parameter.
            default: The value in bytes if the parameter is missing. Without it, a missing parameter is
                an error.

        Returns:
            The size in bytes.

        Raises:
            ConfigurationError: The parameter is missing, or is not a size.
        """
        return self._read(name, default, 'a size, such as "64MB"', size_bytes)

    def _read(self, name: str, default: Any, kind: str, read: Callable[[Any], Any]) -> Any:
        if default is not _MISSING and name not in self._values:
            return default
        value = self[name]
        try:
            return read(value)
        except (ValueError, TypeError, ProgramError):
            raise ConfigurationError(
                f"the parameter {name!r} must be {kind}, not {value!r}",
                hint=f"set it with `rheos run --param {name}=...`, or rh.Environment(parameters=...)",
            ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    try:
        return _TRUTH[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None
