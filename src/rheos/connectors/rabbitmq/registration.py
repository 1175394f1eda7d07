"""Registration of the connector `rabbitmq`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="rabbitmq",
    title="RabbitMQ",
    module="rheos.connectors.rabbitmq",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    requires=("pika", "pika.adapters.asyncio_connection", "pika.exceptions"),
    install="rheos[rabbitmq]",
    server="rheos.ops.servers.rabbitmq:RabbitmqServer",
    docs="rabbitmq.md",
)
