"""Names of the datasets that a source or a lookup reads, or a sink writes, as catalogs know them.

The names follow the naming rules of OpenLineage, so that a catalog recognises the dataset of another
engine.

>>> path_dataset("s3://lake/shop/orders/")
Dataset(namespace='s3://lake', name='shop/orders')
>>> path_dataset("/data/orders")
Dataset(namespace='file', name='/data/orders')
>>> from rheos import collection
>>> datasets_of(collection([{"n": 1}]))
()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

_OF_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "az": "abfss"}


@dataclass(frozen=True)
class Dataset:
    """Name of a table, a topic or a folder."""

    namespace: str
    """The system that holds it, such as `kafka://host:9092`."""
    name: str
    """Its name there, such as `shop.public.orders`."""


@runtime_checkable
class NamesDatasets(Protocol):
    """A source, a sink or a lookup that can name its datasets."""

    def datasets(self) -> Sequence[Dataset]:
        """Return the names of its datasets, without secrets."""


def datasets_of(part: Any) -> tuple[Dataset, ...]:
    """Return the datasets of a source, a sink or a lookup; none if it cannot name them."""
    return tuple(part.datasets()) if isinstance(part, NamesDatasets) else ()


def common_scheme(scheme: str) -> str:
    """Return the common name of a store's scheme, which has several in Hadoop and fsspec.

    >>> common_scheme("s3a")
    's3'
    """
    return _OF_SCHEMES.get(scheme, scheme)


def path_dataset(path: str) -> Dataset:
    """Return the name of a file or a folder, by its absolute path or its URL."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file", "local"):
        return Dataset("file", normpath(parts.path) if parts.scheme else normpath(path))
    scheme = common_scheme(parts.scheme)
    # The user of a URL of Azure is the name of the container.
    place = parts.netloc if scheme == "abfss" else parts.netloc.rpartition("@")[2]
    return Dataset(f"{scheme}://{place}", parts.path.strip("/") or "/")


def server_datasets(scheme: str, addresses: str, names: Iterable[object]) -> tuple[Dataset, ...]:
    """Return the names of topics, tables or keys of a server.

    Args:
        scheme: Name of the system: "kafka".
        addresses: Host and port; of several with commas, the first one names the system.
        names: Names of the topics, tables or keys.

    Returns:
        A dataset for each name.
    """
    first = addresses.split(",")[0].strip()
    return tuple(Dataset(f"{scheme}://{first}", str(name)) for name in names)
