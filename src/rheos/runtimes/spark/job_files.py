"""The files and folders of a job (`Environment(files=...)`), made available to Spark's workers.

Workers on the driver's machine read them in place. Spark copies them to other workers, together with
the rest of an application's files: into one folder, under the last part of their paths.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from rheos.core.errors import ConfigurationError
from rheos.core.graph.job_context import JobContext
from rheos.runtimes.host.user_cache import own_user_cache
from rheos.runtimes.spark.session import is_local

_BROUGHT = "brought by spark:"


def brought(context: SparkContext, job: JobContext) -> JobContext:
    """Return the job's context for the workers. Raise ConfigurationError if two files have the same
    name."""
    if not job.files or is_local(context):
        return job
    files: dict[str, str] = {}
    by_last: dict[str, str] = {}
    for name, path in job.files.items():
        last = Path(path).name
        if by_last.setdefault(last, path) != path:
            raise ConfigurationError(
                f"two files of the job are named {last!r}: {by_last[last]} and {path}",
                hint="rename one of them: Spark ships them to its workers in a single folder",
            )
        try:
            context.addFile(path, recursive=Path(path).is_dir())
        except Exception as error:
            raise ConfigurationError(
                f"Spark cannot ship {path} to its workers: {error}",
                hint="check whether another job of this Spark session has shipped a different file "
                "of that name",
            ) from error
        files[name] = _BROUGHT + last
    return replace(job, files=files)


def local(job: JobContext) -> JobContext:
    """Return the job as its functions see it, with local paths. Called on a worker."""
    files = {name: _place(path) for name, path in job.files.items()}
    return replace(job, files=files, code_folder=own_user_cache("compiled"))


def _place(path: str) -> str:
    if not path.startswith(_BROUGHT):
        return path
    return str(SparkFiles.get(path.removeprefix(_BROUGHT)))
