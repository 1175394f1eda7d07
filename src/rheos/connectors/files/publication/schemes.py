"""The publication of a folder, by the scheme of its URL."""

from __future__ import annotations

from importlib import import_module

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.publication.contract import Publication

_RENAME = "rheos.connectors.files.publication.rename_publication:RenamePublication"
_S3 = "rheos.connectors.files.publication.s3:S3Publication"
_GCS = "rheos.connectors.files.publication.gcs:GcsPublication"
_AZURE = "rheos.connectors.files.publication.azure:AzurePublication"

PUBLICATIONS = {
    "file": _RENAME,
    "local": _RENAME,
    "hdfs": _RENAME,
    "webhdfs": _RENAME,
    "arrow_hdfs": _RENAME,
    "memory": _RENAME,
    "s3": _S3,
    "s3a": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}
"""Module and class of the publication, by scheme. Other file systems may replace or lose files in a
rename."""


def scheme_of(url: str) -> str:
    """Return the scheme of a URL; "file" for a path."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator else "file"


def open_publication(url: str, owner: str = "") -> Publication:
    """Return the publication for a folder's path or URL. `FileSink.validate` refuses other schemes."""
    module, _, name = PUBLICATIONS.get(scheme_of(url), _RENAME).partition(":")
    kind: type[Publication] = getattr(import_module(module), name)
    return kind(SinkFolder(url), owner)
