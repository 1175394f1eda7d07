"""Checks both forms of every function of a program over the first rows of its sources."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rheos.core.callables import function_name
from rheos.core.compiler.eligibility import Refusal, form_of
from rheos.core.errors import ConfigurationError, RheosError, Site
from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.operators.contract import OperatorSpec
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import OperatorId
from rheos.ops.compiled_forms.form_comparison import FormResult, compare_forms
from rheos.ops.compiled_forms.operator_inputs import operator_inputs
from rheos.ops.forks.recording import FirstRows, record
from rheos.ops.forks.tape import Tape
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.host.scratch import OwnedFolder

_COMPILED = "compiled"


@dataclass(frozen=True)
class CheckedFunctions:
    """The functions of one operator."""

    operator: str
    kind: str
    site: Site
    functions: tuple[str, ...]
    """Names of the functions that have a compiled form."""
    interpreted: dict[str, str]
    """For each other function, why it is not compiled."""
    result: FormResult | None
    """Result of the comparison; None if no function has a compiled form."""


@dataclass(frozen=True)
class CompiledCheck:
    """The result for a program."""

    rows_read: dict[str, int]
    """Number of rows read from each source, by its name."""
    operators: tuple[CheckedFunctions, ...]
    error: RheosError | None
    """Error with which the program failed; later input is not part of the comparison."""

    @property
    def good(self) -> bool:
        """Whether no forms differ."""
        return all(each.result is None or each.result.difference is None for each in self.operators)


def check_program(plan: PhysicalPlan, most_rows: int) -> CompiledCheck:
    """Run both forms of each function that has two over the input that the operator would receive.

    The sources are read from their beginning. Nothing is written, except by user code.

    Args:
        plan: The program.
        most_rows: Maximum number of rows that are read from each source.

    Returns:
        The result for each operator with a Python function.

    Raises:
        ConfigurationError: No compiler is installed, an operator acts on another system, or a source
            cannot be read a second time.
        RheosError: A source fails.
    """
    if find_spec("numba") is None:
        raise ConfigurationError(
            "no compiler is installed, so there are no compiled functions to check",
            hint="pip install 'rheos[compiled]'",
        )
    refuse_outside_effects(plan, "a check of compiled functions")
    with contextlib.closing(OwnedFolder("rheos-check-")) as owned:
        tapes: dict[OperatorId, Tape] = {}
        for number, (planned, _) in enumerate(sources(plan)):
            folder = Path(owned.path, str(number))
            folder.mkdir()
            tapes[planned.id] = record(planned, {}, folder, FirstRows(most_rows), plan.max_parallelism)
        inputs = operator_inputs(plan, tapes, owned.path + "/state")
    names = {planned.id: planned.name for planned in plan.operators()}
    rows_read = {names[id]: tape.rows for id, tape in tapes.items()}
    checked = []
    for planned in plan.operators():
        forms = dict(planned.spec.function_forms()) or dict(_other_functions(planned.spec))
        if not forms:
            continue
        compiled = tuple(name for name, form in forms.items() if form == _COMPILED)
        result = compare_forms(planned, plan, inputs.deliveries[planned.id]) if compiled else None
        checked.append(_checked(planned, forms, compiled, result))
    return CompiledCheck(rows_read, tuple(checked), inputs.error)


def _checked(
    planned: PlannedOperator,
    forms: dict[str, str],
    compiled: Sequence[str],
    result: FormResult | None,
) -> CheckedFunctions:
    others = {
        name: form.removeprefix("interpreted: ") for name, form in forms.items() if form != _COMPILED
    }
    return CheckedFunctions(
        planned.name, planned.spec.kind, planned.site, tuple(compiled), others, result
    )


_VECTORISED = ("map_batches", "map_async")
"""Kinds of operators that compiled code would not speed up."""


def _other_functions(spec: OperatorSpec) -> Iterator[tuple[str, str]]:
    """Yield the user's function of an operator that does not describe the forms of its functions."""
    function = getattr(spec, "fn", None)
    if function is None or spec.kind in _VECTORISED or isinstance(function, KeyedBatchFunction):
        return
    owner = getattr(function, "__module__", "") or ""
    if not owner.startswith("rheos."):
        automatic = getattr(spec, "automatic", None)
        has_both = isinstance(automatic, Mapping | Refusal) and spec.interpreted() is not spec
        form = form_of(automatic) if has_both else ""
        yield function_name(function), form or f"functions of {spec.kind} are not compiled"
