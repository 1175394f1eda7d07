"""Program for a Spark of another version, which reads tables of Iceberg and Delta, and prints the rows.

Its arguments are `iceberg=` with a metadata file, and `delta=` with a folder.
"""

import json
import sys

from pyspark.sql import SparkSession

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.2",
    "io.delta:delta-spark_2.12:3.3.2",
)

if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", ",".join(PACKAGES))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    for argument in sys.argv[1:]:
        format, _, location = argument.partition("=")
        rows = spark.read.format(format).load(location).orderBy("n").collect()
        print(json.dumps([row.asDict() for row in rows], default=str))
