"""Registration of the connector `mqtt`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="mqtt",
    title="MQTT",
    module="rheos.connectors.mqtt",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    requires=("paho.mqtt.client",),
    install="rheos[mqtt]",
    server="rheos.ops.servers.mqtt:MosquittoServer",
    docs="mqtt.md",
)
