"""A DAG of Airflow for a job that reads what is there and ends.

A run takes no data interval: what it reads is what has come since the last one, by the job's own
checkpoints. So runs that were missed are not caught up, and there is never more than one.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="orders",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
) as dag:
    BashOperator(
        task_id="until_now",
        bash_command="/opt/rheos/bin/rheos run job.py --config job.toml --until now --log-json ",
        cwd="/srv/rheos/orders",
        env={"RHEOS_HOME": "/var/lib/rheos"},
        append_env=True,
    )
