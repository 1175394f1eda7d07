"""RabbitMQ: `rabbitmq.source(...)` and `rabbitmq.sink(...)`, with the extra `rheos[rabbitmq]`."""

from rheos.connectors.rabbitmq.sink import RabbitmqSink as RabbitmqSink
from rheos.connectors.rabbitmq.sink import sink as sink
from rheos.connectors.rabbitmq.source import RabbitmqSource as RabbitmqSource
from rheos.connectors.rabbitmq.source import source as source
