"""Requests as a source, and rows for browsers: `http.source(port=8080)`, `http.sink(port=8081)`."""

from rheos.connectors.http.sink import EventSink as EventSink
from rheos.connectors.http.sink import sink as sink
from rheos.connectors.http.source import WebhookSource as WebhookSource
from rheos.connectors.http.source import source as source
