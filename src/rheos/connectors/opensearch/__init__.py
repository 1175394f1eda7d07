"""OpenSearch and Elasticsearch: `opensearch.sink(...)`. It needs the extra `rheos[opensearch]`."""

from rheos.connectors.opensearch.sink import OpenSearchSink as OpenSearchSink
from rheos.connectors.opensearch.sink import sink as sink
