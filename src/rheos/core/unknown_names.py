"""Errors for names and arguments that do not exist. They tell users what to write instead.

Public classes derive from `HintedBase` or `HintedObject`. `with_hints` does the same for the modules
and functions that a package exports. `foreign_names` has the names of other systems; it is imported at
the first unknown name. Names that start with an underscore are probes of Python and of notebooks. They
raise a plain AttributeError.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib.machinery import PathFinder
from types import FunctionType, ModuleType, TracebackType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rheos.core import site
from rheos.core.errors import (
    ArgumentsError,
    ProgramError,
    RheosError,
    UnknownImportError,
    UnknownNameError,
)
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, is_users, user_frames

_WRAPPERS = (site.__file__, __file__)
"""Files with functions that only pass the arguments of a call on."""

_MOST_LISTED = 20
"""Maximum number of names in a hint."""

_CLOSE = 0.75
"""Similarity of a name to the one that a hint suggests; 1.0 means equal."""

_CALL = ".{}(...)"
"""Form in which a hint writes a method."""


def hint_for(name: str, own: Iterable[str], sections: Iterable[str] = (), write: str = _CALL) -> str:
    """Return the advice for an unknown name: a name of Rheos in the right spelling, the way to do it
    here, or a similar name.

    Args:
        name: The unknown name.
        own: The names that exist. A name may have a prefix, as in "str.slice".
        sections: Sections of `foreign_names`, the first one first.
        write: Form in which the hint writes a name that exists.

    Returns:
        The advice, or an empty string.
    """
    from difflib import get_close_matches

    from rheos.core.foreign_names import folded, words

    names = {folded(each.rpartition(".")[2]): each for each in own if not each.startswith("_")}
    wanted = folded(name)
    if wanted in names:
        return f"Rheos writes {write.format(names[wanted])}"
    for section in sections:
        if wanted in words(section):
            return words(section)[wanted]
    close = get_close_matches(wanted, names, 1, _CLOSE)
    return f"did you mean {write.format(names[close[0]])}?" if close else ""


def unknown_name(
    name: str, kind: str, own: Iterable[str], sections: Iterable[str] = (), write: str = _CALL
) -> UnknownNameError:
    """Return the error for an attribute that does not exist. The arguments are those of `hint_for`."""
    own = sorted(each for each in own if not each.startswith("_"))
    few = len(own) <= _MOST_LISTED
    rest = f"it has {', '.join(own)}" if few else "dir(...) and help(...) list what it has"
    hint = hint_for(name, own, sections, write) or rest
    return UnknownNameError(f"{kind} has no {name}", site=call_site(), hint=hint)


class HintedObject:
    """Base of public classes whose objects explain wrong attributes and arguments.

    The errors are also an AttributeError and a TypeError, so `hasattr`, `copy` and pickle work.
    """

    _sections: ClassVar[tuple[str, ...]] = ()
    """Sections of `foreign_names`, the first one first."""
    _kind: ClassVar[str] = ""
    """Noun for the object in errors; by default the name of its class."""
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Advice for methods that only other classes of Rheos have."""

    if not TYPE_CHECKING:

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            _check_arguments_of(cls)

        def __getattr__(self, name: str) -> NoReturn:
            cls = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
            kind = cls._kind or f"rh.{cls.__name__}"
            advice = [self._advice_for(name)]
            for each, there in cls._elsewhere.items():
                if each.replace("_", "") == name.replace("_", "").lower():
                    advice.append(there)
                    name += "()"
            if hint := "; ".join(filter(None, advice)):
                raise UnknownNameError(f"{kind} has no {name}", site=call_site(), hint=hint)
            raise unknown_name(name, kind, dir(cls), cls._sections)

        def _advice_for(self, name: str) -> str:
            return ""


class HintedClass(ABCMeta):
    """Metaclass that has hints for the attributes of a class, as in `rh.Tumbling.of`."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            if name.startswith("_") or name in vars(cls).get("__annotations__", ()):
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
            raise unknown_name(name, f"rh.{cls.__name__}", dir(cls), cls._sections)


def _check_arguments_of(cls: type) -> None:
    for name, member in [*vars(cls).items()]:
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, FunctionType):
            setattr(cls, name, checking_arguments(member))
        elif isinstance(member, classmethod | staticmethod):
            setattr(cls, name, type(member)(checking_arguments(member.__func__)))


def checking_arguments(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that explains wrong arguments at the line of the call. It raises an error for
    arguments that the function does not take, and for values of other types."""
    if getattr(fn, "_checks_arguments", False):
        return fn

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except RheosError as error:
            if error.site is None and is_users((site := call_site()).file):
                error.site = site
            raise
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, TypeError) and _is_of_call(error.__traceback__):
                refused = _wrong_arguments(fn, args, kwargs)
            else:
                refused = _wrong_types(fn, args, kwargs)
            if refused is None:
                raise
        raise refused

    call._checks_arguments = True  # type: ignore[attr-defined]
    return call


class HintedBase(HintedObject, metaclass=HintedClass):
    """Base of public classes that users call. The class itself explains wrong attributes, too."""


def _is_of_call(trace: TracebackType | None) -> bool:
    """Return whether the call itself raised the TypeError, and not the body of the function."""
    while trace is not None and trace.tb_frame.f_code.co_filename in _WRAPPERS:
        trace = trace.tb_next
    return trace is None


def _wrong_arguments(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ArgumentsError | None:
    from rheos.core.foreign_names import folded, words

    signature = inspect.signature(fn)
    try:
        signature.bind(*args, **kwargs)
        return None
    except TypeError as error:
        reason = str(error)
    name = _name_of(fn, args)
    own = [each for each in signature.parameters if each not in ("self", "cls")]
    taken = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    unknown = next((each for each in kwargs if each not in own and not taken), None)
    takes = f"its arguments are {', '.join(own)}" if own else "it takes no arguments"
    if "aggregates" in own:
        takes = f'name each result: .{fn.__name__}(total=rh.agg.sum("price"))'
    if unknown is None:
        return ArgumentsError(f"{name}(): {reason}", site=call_site(), hint=takes)
    foreign = words("arguments").get(folded(unknown), "")
    ours = foreign.partition("=")[0]
    if elsewhere := words(f"{name.rpartition('.')[2]}()").get(folded(unknown)):
        foreign = elsewhere
    elif ours not in own and "." not in ours:
        foreign = hint_for(unknown, own, write="{}=...")
    hint = f"{foreign}; {takes}" if foreign else takes
    return ArgumentsError(f"{name}() has no argument {unknown!r}", site=call_site(), hint=hint)


def _name_of(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the name of a function as an error shows it; for a constructor, that of its class."""
    first = next(iter(inspect.signature(fn).parameters), "")
    if first == "self" and args and fn.__name__ != "__init__":
        return f"{type(args[0]).__name__}.{fn.__name__}"
    return fn.__qualname__.removesuffix(".__init__").rpartition("<locals>.")[2]


def _wrong_types(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ArgumentsError | None:
    """Return the error for the first argument whose value is not of its annotated type, or None."""
    try:
        types = get_type_hints(fn)
    except NameError:  # An annotation that only type checkers import.
        return None
    for name, value in inspect.signature(fn).bind(*args, **kwargs).arguments.items():
        if name in types and not _may_be(types[name], value):
            what = f"{_name_of(fn, args)}(): {name} is {shown(value)}, which has the wrong type"
            wanted = inspect.formatannotation(types[name])
            return ArgumentsError(what, site=call_site(), hint=f"pass {name} as {wanted}")
    return None


def _may_be(wanted: Any, value: object) -> bool:
    """Return False if a value certainly is not of an annotated type."""
    origin = get_origin(wanted)
    if origin is Literal:
        return value in get_args(wanted)
    if origin in (Union, UnionType):
        return any(_may_be(each, value) for each in get_args(wanted))
    kind = origin or wanted
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bytes):  # Also a sequence of numbers, which nobody means.
        return kind in (bytes, object)
    if isinstance(value, bool):
        return issubclass(bool, kind) and kind is not int
    return isinstance(value, (int, float) if kind is float else kind)


def with_hints(name: str, exported: Any) -> Any:
    """Let an exported object explain names and arguments that do not exist, and return it."""
    if isinstance(exported, ModuleType):
        vars(exported)["__getattr__"] = _attribute_of(exported, name)
        for each, value in [*vars(exported).items()]:
            if each[0] != "_" and _is_part_of(value, exported):
                setattr(exported, each, with_hints(each, value))
    elif isinstance(exported, FunctionType):
        return checking_arguments(exported)
    elif isinstance(exported, HintedClass):
        _check_arguments_of(exported)  # The constructor of a dataclass is made after its class.
    return exported


def _is_part_of(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", "").startswith(module.__name__)


def _attribute_of(module: ModuleType, name: str) -> Callable[[str], Any]:
    found_later = vars(module).get("__getattr__")
    if getattr(found_later, "__module__", "") == __name__:
        return found_later  # type: ignore[return-value]

    def missing(attribute: str) -> Any:
        try:
            if found_later is not None:
                return found_later(attribute)
        except AttributeError:
            pass
        path = f"{module.__name__}.{attribute}"  # The import statement looks for a name first.
        if attribute.startswith("_") or PathFinder.find_spec(path, getattr(module, "__path__", [])):
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")
        own = [each for each, value in vars(module).items() if _is_part_of(value, module)]
        raise unknown_name(attribute, f"rh.{name}", own, (name,), f"rh.{name}.{{}}(...)")

    return missing


def missing_export(package: str, name: str, own: Iterable[str]) -> ProgramError:
    """Return the error for a name that a package does not export."""
    import dis

    error = unknown_name(name, package, own, (package,), "rh.{}")
    frame = next(user_frames(), None)
    if frame is not None and frame.f_lasti >= 0:
        opcode = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if opcode == "IMPORT_FROM":  # An AttributeError would lose the hint.
            return UnknownImportError(error.what, site=error.site, hint=error.hint)
    return error
