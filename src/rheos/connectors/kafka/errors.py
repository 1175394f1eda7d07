"""Translation of errors of Kafka's client to errors of Rheos, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rheos.connectors.kafka.client_options import ClientOptions
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError


class _Kind(NamedTuple):
    error: type[RheosError]
    hint: str


_REFUSED = _Kind(
    ConfigurationError,
    "check security.protocol, and the user and password or the certificates, in options={...}",
)
_MISSING = _Kind(
    ConfigurationError,
    "create the topic, or correct its name; Rheos does not create topics, because only you can "
    "choose partitions and retention",
)
_TOO_LARGE = _Kind(
    InputError,
    "raise max.message.bytes of the topic and options={'message.max.bytes': ...}, or write "
    "smaller records",
)

_KINDS: Mapping[str, _Kind] = {
    "_AUTHENTICATION": _REFUSED,
    "SASL_AUTHENTICATION_FAILED": _REFUSED,
    "UNSUPPORTED_SASL_MECHANISM": _REFUSED,
    "ILLEGAL_SASL_STATE": _REFUSED,
    "_SSL": _REFUSED,
    "UNKNOWN_TOPIC_OR_PART": _MISSING,
    "_UNKNOWN_TOPIC": _MISSING,
    "_UNKNOWN_PARTITION": _Kind(
        ConfigurationError,
        "the topic does not have this partition: check whether it was deleted, or recreated "
        "with fewer partitions",
    ),
    "TOPIC_EXCEPTION": _Kind(ConfigurationError, "correct the name of the topic"),
    "TOPIC_AUTHORIZATION_FAILED": _Kind(
        ConfigurationError, "allow the user to describe the topic, and to read or write it"
    ),
    "GROUP_AUTHORIZATION_FAILED": _Kind(
        ConfigurationError,
        "allow the user to read the group; a sink uses its own groups and transactional ids, "
        "which begin with its id_prefix",
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _Kind(
        ConfigurationError,
        "allow the user transactional ids that begin with the sink's id_prefix, or use "
        'guarantee="at_least_once"',
    ),
    "CLUSTER_AUTHORIZATION_FAILED": _Kind(
        ConfigurationError, "allow the user IdempotentWrite on the cluster"
    ),
    "INVALID_TRANSACTION_TIMEOUT": _Kind(
        ConfigurationError,
        "the broker limits the length of transactions (transaction.max.timeout.ms): set "
        "options={'transaction.timeout.ms': ...} to at most that",
    ),
    "_INVALID_ARG": _Kind(
        ConfigurationError, "the possible options={...} are in librdkafka's CONFIGURATION.md"
    ),
    "_CONFLICT": _Kind(
        ConfigurationError, "the possible options={...} are in librdkafka's CONFIGURATION.md"
    ),
    "_UNSUPPORTED_FEATURE": _Kind(
        ConfigurationError, "upgrade the broker: it is too old for this request"
    ),
    "UNSUPPORTED_VERSION": _Kind(
        ConfigurationError, "upgrade the broker: it is too old for this request"
    ),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _Kind(
        ConfigurationError, "upgrade the broker: it is too old for this request"
    ),
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "INVALID_MSG": _Kind(InputError, "the broker rejects the record"),
    "INVALID_RECORD": _Kind(InputError, "the broker rejects the record: a compacted topic needs keys"),
    "POLICY_VIOLATION": _Kind(InputError, "a policy of the broker rejects the record"),
}

_AWAY = _Kind(
    UnavailableError,
    "check that the brokers are up at that address, use this security.protocol, and have free "
    "disk space. A running job is restarted by its restart strategy",
)


def kafka_error(
    error: Any, doing: str, options: ClientOptions, *, record: str | None = None
) -> RheosError:
    """Translate a KafkaError, or an exception that contains one. `doing` begins the message, such as
    "the topic 'a' cannot be written"."""
    of = as_kafka_error(error)
    kind = _KINDS.get(of.name(), _AWAY) if of is not None else _AWAY
    why = options.redact(f"{of.str()} ({of.name()})" if of is not None else str(error))
    what = f"{doing}, at {options.brokers}: {why}"
    return kind.error(what, hint=kind.hint, record=record)


def as_kafka_error(error: Any) -> Any:
    """Return the KafkaError that this is or contains; otherwise None."""
    if hasattr(error, "code") and hasattr(error, "name"):
        return error
    args = getattr(error, "args", ())
    return as_kafka_error(args[0]) if args and not isinstance(args[0], str) else None


def is_refusal(error: Any) -> bool:
    """Return whether the brokers refuse the client. Its calls then time out, and only its error
    callback knows the reason."""
    return error.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL")


def lacks_coordinator(error: Any) -> bool:
    """Return whether the brokers are choosing the coordinator of a group or a transaction, so that the
    same request succeeds later."""
    return as_kafka_error(error).name() in (
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
    )


def may_pass(error: RheosError) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(error, UnavailableError)
