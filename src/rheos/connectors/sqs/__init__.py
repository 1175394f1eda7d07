"""Amazon SQS: `sqs.source(...)` and `sqs.sink(...)`, with the extra `rheos[aws]`."""

from rheos.connectors.sqs.sink import SqsSink as SqsSink
from rheos.connectors.sqs.sink import sink as sink
from rheos.connectors.sqs.source import SqsSource as SqsSource
from rheos.connectors.sqs.source import source as source
