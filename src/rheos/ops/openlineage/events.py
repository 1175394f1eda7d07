"""Events of OpenLineage about one run of a job, as plain data. This module sends nothing.

The specification is at https://openlineage.io/spec. Each facet names its producer and its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import pyarrow as pa

from rheos.core.connectors.datasets import Dataset, datasets_of
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.elements import visible
from rheos.core.redaction import redacted
from rheos.core.version import VERSION
from rheos.runtimes.job import LineageConfig, ParentRun

PRODUCER = f"https://rheos.example/source/{VERSION}"
EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
FACET_VERSIONS: Mapping[str, str] = {
    "SchemaDatasetFacet": "1-2-0",
    "ColumnLineageDatasetFacet": "1-2-0",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
}
"""Versions of the facets' schemas."""


class RunState(StrEnum):
    """Kinds of events of a run."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"


@dataclass(frozen=True)
class JobDataset:
    """A dataset that a job reads or writes."""

    operator: str
    """Name of the operator that reads or writes it."""
    dataset: Dataset
    columns: pa.Schema


@dataclass(frozen=True)
class JobLineage:
    """Everything that the events of a job have in common."""

    namespace: str
    name: str
    run: UUID
    is_endless: bool
    parent: ParentRun | None
    inputs: tuple[JobDataset, ...]
    outputs: tuple[JobDataset, ...]
    origins: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]
    """For an output of SQL, by its operator's name: the source columns of each of its columns."""

    def event(self, state: RunState, at: str, failure: str | None = None) -> dict[str, Any]:
        """Return an event.

        Args:
            state: What has happened.
            at: Time of the event, by ISO 8601.
            failure: Message of the error for which the job has failed.

        Returns:
            The event, for JSON. Secrets are redacted.
        """
        run: dict[str, Any] = {
            "processing_engine": _facet(
                "ProcessingEngineRunFacet",
                version=VERSION,
                name="Rheos",
                openlineageAdapterVersion=VERSION,
            )
        }
        if self.parent is not None:
            run["parent"] = _facet(
                "ParentRunFacet",
                run={"runId": self.parent.run},
                job={"namespace": self.parent.namespace, "name": self.parent.job},
            )
        if failure is not None:
            run["errorMessage"] = _facet(
                "ErrorMessageRunFacet", message=redacted(failure), programmingLanguage="PYTHON"
            )
        job_type = _facet(
            "JobTypeJobFacet",
            processingType="STREAMING" if self.is_endless else "BATCH",
            integration="RHEOS",
            jobType="JOB",
        )
        event: dict[str, Any] = {
            "eventType": state.value,
            "eventTime": at,
            "producer": PRODUCER,
            "schemaURL": EVENT_SCHEMA,
            "run": {"runId": str(self.run), "facets": run},
            "job": {"namespace": self.namespace, "name": self.name, "facets": {"jobType": job_type}},
            "inputs": [_dataset(each, {}) for each in self.inputs],
            "outputs": [_dataset(each, self._columns_of(each)) for each in self.outputs],
        }
        return event

    def _columns_of(self, output: JobDataset) -> dict[str, Any]:
        """Return the facet with the lineage of an output's columns; empty if it is not known."""
        fields = {}
        for column, of in self.origins.get(output.operator, {}).items():
            found = [
                {"namespace": each.dataset.namespace, "name": each.dataset.name, "field": name}
                for table, name in of
                for each in self.inputs
                if each.operator == table
            ]
            if found and column in output.columns.names:
                fields[column] = {"inputFields": found}
        return {"columnLineage": _facet("ColumnLineageDatasetFacet", fields=fields)} if fields else {}


def lineage_of(
    plan: PhysicalPlan,
    config: LineageConfig,
    key: str,
    origins: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]],
) -> JobLineage:
    """Return the lineage of a job.

    Args:
        plan: The plan of the job.
        config: Namespace and parent.
        key: Identity of the job over all its drivers, from which the id of the run is derived.
        origins: Source columns of the columns that SQL writes, by the names of tables.

    Returns:
        The lineage. Sources and sinks that cannot name their datasets are left out.
    """
    inputs, outputs, is_endless = [], [], False
    for planned in plan.operators():
        spec = planned.spec
        if isinstance(spec, SourceSpec):
            is_endless |= not spec.source.bounded
            inputs += _named(planned.name, datasets_of(spec.source), spec.source.schema)
        elif spec.looks_up is not None:
            inputs += _named(planned.name, datasets_of(spec.looks_up), spec.looks_up.schema)
        elif spec.writes_to is not None:
            columns = visible(planned.ports[0].schema)
            outputs += _named(planned.name, datasets_of(spec.writes_to), columns)
    run = uuid5(NAMESPACE_URL, f"{PRODUCER.rpartition('/')[0]}/{config.namespace}/{key}")
    return JobLineage(
        config.namespace,
        plan.name,
        run,
        is_endless,
        config.parent,
        tuple(inputs),
        tuple(outputs),
        origins,
    )


def _named(operator: str, datasets: Iterable[Dataset], columns: pa.Schema) -> list[JobDataset]:
    return [JobDataset(operator, each, columns) for each in datasets]


def _dataset(of: JobDataset, facets: Mapping[str, Any]) -> dict[str, Any]:
    schema = _facet("SchemaDatasetFacet", fields=[_field(each) for each in of.columns])
    return {
        "namespace": of.dataset.namespace,
        "name": of.dataset.name,
        "facets": {"schema": schema, **facets},
    }


def _field(field: pa.Field) -> dict[str, Any]:
    if not pa.types.is_struct(field.type):
        return {"name": field.name, "type": str(field.type)}
    return {"name": field.name, "type": "struct", "fields": [_field(each) for each in field.type]}


def _facet(kind: str, /, **values: Any) -> dict[str, Any]:
    url = f"{_FACETS}/{FACET_VERSIONS[kind]}/{kind}.json#/$defs/{kind}"
    return {"_producer": PRODUCER, "_schemaURL": url, **values}
