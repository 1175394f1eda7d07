"""MQTT: `mqtt.source(...)` and `mqtt.sink(...)`, with the extra `rheos[mqtt]`."""

from rheos.connectors.mqtt.sink import MqttSink as MqttSink
from rheos.connectors.mqtt.sink import sink as sink
from rheos.connectors.mqtt.source import MqttSource as MqttSource
from rheos.connectors.mqtt.source import source as source
