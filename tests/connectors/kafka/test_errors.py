"""Errors of Kafka's client are translated to errors with advice."""

from __future__ import annotations

import pytest

from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.errors import _KINDS, as_kafka_error, kafka_error, may_pass
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

kafka = pytest.importorskip("confluent_kafka", reason="the extra `kafka` is not installed")
OPTIONS = ClientOptions.of("b:9092", {"sasl.password": "hunter2"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UNKNOWN_TOPIC_OR_PART", ConfigurationError),
        ("SASL_AUTHENTICATION_FAILED", ConfigurationError),
        ("MSG_SIZE_TOO_LARGE", InputError),
        ("_ALL_BROKERS_DOWN", UnavailableError),
        ("_FENCED", UnavailableError),
        ("NOT_ENOUGH_REPLICAS", UnavailableError),
    ],
)
def test_each_kind_states_whether_a_retry_may_help(name: str, kind: type[RheosError]) -> None:
    error = kafka.KafkaError(getattr(kafka.KafkaError, name), "refused hunter2")
    for given in (error, kafka.KafkaException(error)):
        found = kafka_error(given, "the topic 't' cannot be written", OPTIONS)
        assert type(found) is kind
        assert may_pass(found) is (kind is UnavailableError)
        assert found.hint
        assert found.what == f"the topic 't' cannot be written, at b:9092: refused *** ({name})"


def test_other_errors_are_not_translated() -> None:
    found = kafka_error(OSError("hunter2 is gone"), "no", OPTIONS)
    assert found.what == "no, at b:9092: *** is gone"
    assert as_kafka_error(kafka.KafkaException("text")) is None


def test_the_names_are_those_of_the_client() -> None:
    known = set(dir(kafka.KafkaError))
    assert set(_KINDS) <= known
