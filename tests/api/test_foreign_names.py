"""Names of other systems, and names that do not exist, end in an error with a place and a hint."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.error_hints import hint_for_error
from rheos.core.errors import ArgumentsError, UnknownImportError, UnknownNameError
from rheos.core.foreign_names import SECTIONS, folded, words
from rheos.core.unknown_names import HintedClass, HintedObject
from rheos.runtimes.job import JobResult
from tests.api.programs import environment, events

ENV = environment()
STREAM = events(ENV)
KEYED = STREAM.key_by("user")
OBJECTS: dict[str, Any] = {
    "stream": STREAM,
    "keyed": KEYED,
    "windowed": KEYED.window(rh.Tumbling("1m")),
    "connected": STREAM.connect(events(ENV, name="b")),
    "environment": ENV,
    "expression": rh.col("user") + 1,
    "result": JobResult(status=None),  # type: ignore[arg-type]
    "handle": type("Handle", (rh.JobHandle,), {"__abstractmethods__": frozenset()}),
    "rheos": rh,
}
LISTED = [
    (system, owner, name)
    for line in (Path(__file__).parent / "foreign_names.txt").read_text().splitlines()
    if not line.startswith("#")
    for system, owner, *names in [line.split()]
    for name in names
]


def object_named(name: str) -> Any:
    first, *rest = name.split(".")
    found = OBJECTS[first] if first in OBJECTS else getattr(rh, first)
    if first == "handle":
        found.__abstractmethods__ = frozenset()
        found = found()
    for each in rest:
        found = getattr(found, each)
    return found


def test_the_list_has_every_system() -> None:
    systems = {"pyspark", "pandas", "polars", "flink", "kafka-streams", "bytewax", "beam"}
    assert len({(owner, name) for _, owner, name in LISTED}) > 250
    assert {system for system, _, _ in LISTED} == systems


@pytest.mark.parametrize(("system", "owner", "name"), LISTED)
def test_a_name_of_another_system_has_a_hint(system: str, owner: str, name: str) -> None:
    found = object_named(owner)
    if owner == "expression":  # The class is that of Polars, and so is the error.
        with pytest.raises(AttributeError) as theirs:
            getattr(found, name)
        assert hint_for_error(theirs.value)
        return
    wanted = ArgumentsError if name.endswith("=") else UnknownNameError
    with pytest.raises(wanted) as raised:
        found(**{name[:-1]: 1}) if name.endswith("=") else getattr(found, name)
    error = raised.value
    assert str(error).startswith(f"{__file__}:")
    assert name.rstrip("=") in error.what
    assert error.hint
    assert "list what it has" not in error.hint


MADE_BY_OTHERS = {"otherwise", "when", "then", "quantile", "any", "stderr"}


@pytest.mark.parametrize("section", SECTIONS)
def test_hints_name_only_what_exists(section: str) -> None:
    known = {name for cls in hinted_classes() for name in dir(cls)}
    expr = {
        name for part in ("str", "dt", "list", "struct") for name in dir(getattr(rh.col("x"), part))
    }
    values = {
        "append",
        "extend",
        "replace",
        "items",
        "register",
        "register_processing",
        "output",
        "csv",
    }
    known |= expr | values | {*dir(rh.col("x"))} | MADE_BY_OTHERS
    for name, advice in words(section).items():
        for path in re.findall(r"\brh((?:\.\w+)+)", advice):
            found: Any = rh
            for part in path.split(".")[1:]:
                found = getattr(found, part)
        for method in re.findall(r"(?<!rh)(?<![\w\"/*])\.(\w+)\(", advice):
            assert method in known, (name, advice)


def test_arguments_in_hints_exist() -> None:
    callables = [
        value
        for module in (rh, rh.files, rh.kafka, rh.postgres, rh.formats, rh.restart, rh.tables, rh.agg)
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_")
    ]
    callables += [fn for cls in hinted_classes() for _, fn in inspect.getmembers(cls, callable)]
    taken = {"parallelism", *rh.Settings.__dataclass_fields__}
    for each in callables:
        try:
            taken |= {*inspect.signature(each).parameters}
        except (TypeError, ValueError):
            continue
    columns = {"n", "total", "price", "p95", "failed"}
    for section in SECTIONS:
        for advice in words(section).values():
            assert {*re.findall(r"[(,] ?(\w+)=(?!=)", advice)} <= taken | columns, advice
    for advice in words("arguments").values():
        argument = advice.partition("=")[0]
        assert argument in taken or "." in argument, advice


def hinted_classes() -> set[type]:
    found: set[type] = set()
    waiting: list[type] = [HintedObject]
    while waiting:
        cls = waiting.pop()
        found.add(cls)
        waiting += cls.__subclasses__()
    return found


@pytest.mark.parametrize("name", rh.__all__)
def test_every_exported_object_refuses_unknown_arguments_with_a_hint(name: str) -> None:
    value = getattr(rh, name)
    if inspect.ismodule(value):
        members = [each for key, each in inspect.getmembers(value, inspect.isfunction) if key[0] != "_"]
        called = [each for each in members if each.__module__.startswith(value.__name__)]
    elif inspect.isfunction(value) or isinstance(value, HintedClass):
        called = [value] if value is not rh.Environment else []  # It takes any, and checks them itself.
    else:
        pytest.skip("users do not call it, or derive classes from it")
    for each in called:
        if inspect.isclass(each) and inspect.isabstract(each):
            continue
        parameters = inspect.signature(each).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            with pytest.raises(ArgumentsError, match="has no argument 'nonsense'"):
                each(nonsense=1)


def test_aggregates_stay_the_same_objects_when_they_are_exported() -> None:
    """The SQL planner uses them as keys, whichever module is imported first."""
    program = (
        "from rheos.core import aggregates; before = {**vars(aggregates)}; import rheos; rheos.agg; "
        "assert all(value is before.get(name, value) for name, value in vars(aggregates).items() "
        "if callable(value) and name[0] != '_')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_setting_has_a_hint() -> None:
    with pytest.raises(rh.ConfigurationError, match="write parallelism") as raised:
        rh.Environment(paralelism=1)  # type: ignore[call-arg]
    assert str(raised.value).startswith(f"{__file__}:")


@pytest.mark.parametrize("name", [each for each in rh.__all__ if inspect.ismodule(getattr(rh, each))])
def test_every_exported_module_has_hints(name: str) -> None:
    module = getattr(rh, name)
    with pytest.raises(UnknownNameError) as raised:
        _ = module.nonsense
    assert str(raised.value).startswith(f"{__file__}:")
    assert not hasattr(module, "nonsense")


@pytest.mark.parametrize("owner", [each for each in OBJECTS if each != "handle"])
def test_probes_of_python_and_notebooks_work(owner: str) -> None:
    found = OBJECTS[owner]
    for probe in (
        "_repr_html_",
        "_ipython_display_",
        "_ipython_canary_method_should_not_exist_",
        "__x__",
    ):
        assert getattr(found, probe, None) is None or owner == "expression"
    assert not hasattr(found, "nonsense")
    if owner != "rheos":
        copy.copy(found)


def test_an_import_of_an_unknown_name_has_a_hint() -> None:
    with pytest.raises(UnknownImportError, match=r"rheos has no SparkSession(.|\n)*rh\.Environment\("):
        from rheos import SparkSession  # type: ignore[attr-defined]  # noqa: F401


def test_a_type_error_of_the_function_itself_is_not_changed() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as raised:
        rh.Environment(1, runtime="simulated").from_source(rh.collection(Broken()))
    assert not isinstance(raised.value, ArgumentsError)


class Broken:
    def __iter__(self) -> Any:
        return 1 + "a"  # type: ignore[operator]


def test_windows_and_errors_are_pickled() -> None:
    window = rh.Tumbling("1m")
    assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window
    with pytest.raises(UnknownNameError) as raised:
        STREAM.groupBy("user")  # type: ignore[attr-defined]
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert folded("groupBy") == folded("group_by")


def test_a_state_or_context_at_run_time_has_a_hint() -> None:
    class Counting(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, default=0)

        def process_element(self, record: Any, ctx: Any) -> None:
            self.seen.update(1)  # type: ignore[attr-defined]

    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection([{"a": 1}]))
    rows.key_by("a").process(Counting(), returns={"a": int}).collect("out")
    with pytest.raises(rh.RheosError) as raised:
        env.execute("job")
    assert "self.seen.value = 1" in str(raised.value)
    assert hint_for_error(ValueError("no")) == ""
