"""Table that a sink publishes into: its location and columns, and a check that they are unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from rheos.connectors.spark.table_fit import TableColumn, check_fits, columns_of
from rheos.connectors.spark.table_session import publishing
from rheos.connectors.spark.table_writer import TableStaging
from rheos.connectors.tables import TableFormat
from rheos.core.errors import SchemaError
from rheos.core.redaction import RedactedRepr


@dataclass(frozen=True)
class SparkTable(RedactedRepr):
    """An existing table."""

    label: str
    """Full name of the table, or its path."""
    format: TableFormat
    location: str
    """Location in Spark's form."""
    staging: TableStaging
    columns: tuple[TableColumn, ...]
    """Columns when the job was submitted."""
    by_name: bool

    @property
    def title(self) -> str:
        return f"{self.format} table {self.label}"

    def current_columns(self, session: SparkSession) -> tuple[TableColumn, ...]:
        """Return the current columns."""
        if self.by_name:
            session.catalog.refreshTable(self.label)
            return columns_of(session.table(self.label).schema)
        return columns_of(session.read.format(self.format).load(self.location).schema)

    def check_unchanged(self, session: SparkSession) -> None:
        """Raise SchemaError if staged rows do not fit the table any more; then nothing is published."""
        if not self.by_name and self.format == "parquet":
            return
        with publishing(f"the table {self.label} does not exist"):
            columns = self.current_columns(session)
        try:
            check_fits(self.staging.schema, columns, self.label)
        except SchemaError as error:
            raise SchemaError(
                f"the table has changed while the job ran: {error.what}",
                hint="the checkpoint's rows are not published, but not lost: change the table back, "
                "and start the job again",
            ) from error
