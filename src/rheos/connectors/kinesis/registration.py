"""Registration of the connector `kinesis`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import OF_FORMATS, SqlOption, renamed

CONNECTOR = ConnectorRegistration(
    name="kinesis",
    title="Amazon Kinesis",
    module="rheos.connectors.kinesis",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    sql_options={
        **OF_FORMATS,
        "stream.arn": SqlOption("stream"),
        "aws.region": SqlOption("region"),
        "aws.endpoint": SqlOption("endpoint"),
        "options.": SqlOption("options"),
        "source.init.position": renamed("start", LATEST="latest", TRIM_HORIZON="earliest"),
        "scan.stream.initpos": renamed("start", LATEST="latest", TRIM_HORIZON="earliest"),
    },
    requires=("boto3", "botocore"),
    install="rheos[aws]",
    server="rheos.ops.servers.moto:KinesisServer",
    docs="kinesis.md",
)
