"""Registration of the connector `sqs`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import OF_FORMATS, SqlOption

CONNECTOR = ConnectorRegistration(
    name="sqs",
    title="Amazon SQS",
    module="rheos.connectors.sqs",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    sql_options={
        **OF_FORMATS,
        "queue-url": SqlOption("queue"),
        "aws.region": SqlOption("region"),
        "aws.endpoint": SqlOption("endpoint"),
        "options.": SqlOption("options"),
    },
    requires=("boto3", "botocore"),
    install="rheos[aws]",
    server="rheos.ops.servers.moto:SqsServer",
    docs="sqs.md",
)
