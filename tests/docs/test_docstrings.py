"""Every public function is documented in full: its arguments, result and errors, and a call of it.

Public is what `rheos` and `rheos.testing` export, and the public methods of exported classes
(`public_names`). A method that overrides another one is documented there. The rules:

1. The summary of a function begins with a verb in the imperative, that of a class with a noun.
2. `Args:` names the parameters, all of them and in their order. `*args` and `**kwargs` need no entry:
   with them, programs choose the signature of a method that they override.
3. A function that returns something has `Returns:` or `Yields:`. If it has no parameters, a summary
   that begins with "Return" or "Yield" is enough.
4. `Raises:` names each error that the function's own source raises. A function that adds the caller's
   line to the errors of its checks has the section, too.
5. These have an example: each function; each method with parameters of a class in `CALLED`; each class
   that a program creates or extends, or instead the class methods that create it
   (`CREATED_BY_METHODS`). Rheos creates the classes in `MADE_BY_RHEOS`, and docs/connectors.md shows
   whole connectors. Code in the text that creates the class is an example, too.

Properties need a summary only. Examples run, with the names of `example_names`.
"""

from __future__ import annotations

import inspect
import linecache
from enum import Enum
from pathlib import Path

import pytest

from tests.docs.example_names import example_names
from tests.docs.public_names import Public, public_names

NAMES = {each.name: each for each in public_names()}
FUNCTIONS = [
    name for name, each in NAMES.items() if inspect.isfunction(each.value) and not each.is_property
]
CLASSES = [name for name, each in NAMES.items() if inspect.isclass(each.value)]
WITH_EXAMPLES = [name for name, each in NAMES.items() if each.examples]

CALLED = {
    *("DataStream", "KeyedStream", "WindowedStream", "ConnectedStreams", "KeyedConnectedStreams"),
    "Environment",
}
MADE_BY_RHEOS = {
    *(
        "Block",
        "CheckpointInfo",
        "DebugStep",
        "Debugged",
        "Element",
        "ExplainedRow",
        "ForkResult",
        "Migration",
    ),
    *("JobResult", "JobStatus", "OutputDifference", "SourceRow", "StateChange", "StepFiring"),
    *("TimeWindow", "WayStep", "WhyResult", "BatchKeys", "BatchState", "AssignerContext"),
    *("EvictorContext", "KeyedContext", "ProcessContext", "TriggerContext", "WindowContext"),
    *("ConnectedStreams", "KeyedConnectedStreams", "KeyedStream", "WindowedStream"),
    *(
        "pattern.AfterMatch",
        "testing.ReplayMode",
        "testing.Right",
        "testing.Simulated",
        "testing.Taken",
    ),
}
"""Classes whose objects a program only receives."""
CREATED_BY_METHODS = {"Watermark"}
"""Classes that a program creates by their class methods, which have the examples."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_begins_with_a_verb(name: str) -> None:
    word = NAMES[name].doc.split()[0]
    is_imperative = word[0].isupper() and (not word.endswith("s") or word in VERBS_IN_S)
    assert is_imperative, f"write the imperative, not {word!r}"
    assert word not in NO_VERBS, f"begin with a verb, as in 'Return', not {word!r}"


VERBS_IN_S = {"Process", "Pass", "Discuss", "Address", "Express", "Compress"}
NO_VERBS = {
    *(
        "A",
        "An",
        "The",
        "Of",
        "This",
        "That",
        "These",
        "Those",
        "All",
        "Every",
        "Each",
        "One",
        "Called",
    ),
    *("With", "Where", "What", "Which", "When", "Without", "No", "For", "From", "In", "Event", "Time"),
    *("Number", "Position", "Whether", "Batch", "New", "Deprecated", "Combined", "Made"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_begins_with_a_noun(name: str) -> None:
    first, second = NAMES[name].doc.split()[:2]
    is_verb = first.endswith("s") and second not in AFTER_PLURALS
    assert not is_verb, f"begin with a noun, not {first!r}"


AFTER_PLURALS = {"of", "that", "for", "from", "with", "by", "in"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_are_those_of_the_signature(name: str) -> None:
    each = NAMES[name]
    wanted = [parameter for parameter in each.parameters if parameter not in ("args", "kwargs")]
    assert each.entries("Args") == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_result_is_described(name: str) -> None:
    each = NAMES[name]
    returned = each.value.__annotations__.get("return")
    is_said = bool({"Returns", "Yields"} & each.sections.keys())
    if returned in (None, "None"):
        assert not is_said
    else:
        assert is_said or (not each.parameters and each.doc.startswith(("Return ", "Yield ")))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_errors_that_it_raises_are_listed(name: str) -> None:
    each = NAMES[name]
    listed = each.entries("Raises")
    assert not each.errors - {*listed}
    assert listed or not each.locates_errors
    assert not {error for error in listed if not error.endswith("Error")}


def needs_an_example(each: Public) -> bool:
    owner = each.name.rpartition(".")[0]
    if inspect.isclass(each.value):
        exempt = each.name in MADE_BY_RHEOS | CREATED_BY_METHODS or owner == "connectors"
        return not exempt and not issubclass(each.value, Exception | Enum)
    if each.owner is None:
        return True
    if owner in CREATED_BY_METHODS:
        return inspect.ismethod(getattr(each.owner, each.value.__name__))
    return owner in CALLED and bool(each.parameters)


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_an_example_shows_its_use(name: str) -> None:
    assert NAMES[name].examples or not needs_an_example(NAMES[name])


def test_the_exceptions_exist() -> None:
    assert {*NAMES} >= MADE_BY_RHEOS | CREATED_BY_METHODS | CALLED


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.descriptors").touch()
    for example in NAMES[name].examples:
        file = tmp_path / "example.py"  # `rh.compiled` reads the source of a class.
        file.write_text(example)
        linecache.checkcache()
        names = example_names(example, monkeypatch)
        exec(compile(example, str(file), "exec", dont_inherit=True), names)
