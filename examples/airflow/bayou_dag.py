"""An Airflow DAG: ingest a pipeline's topics, prove the result, vacuum the table once a day.

Bayou is installed in an environment of its own; the variables name its folder and the pipeline.
"""

from __future__ import annotations

import datetime as dt
import os

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

BAYOU = os.environ.get("BAYOU_COMMAND", "/opt/bayou/bin/bayou")
PIPELINE = os.environ.get("BAYOU_PIPELINE", "/srv/lake/pipeline.yaml")
TABLE = os.environ.get("BAYOU_TABLE", "/srv/lake/user_events")


def is_first_run_of_the_day(data_interval_end: dt.datetime) -> bool:
    """Whether the run is the first one after midnight, UTC."""
    return data_interval_end.hour == 0


with DAG(
    dag_id="bayou",
    description="Kafka topics to Delta tables, exactly once",
    schedule="@hourly",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=5)},
) as dag:
    ingest = BashOperator(
        task_id="ingest", bash_command=f"{BAYOU} run {PIPELINE} --once --json", append_env=True
    )
    verify = BashOperator(
        task_id="verify", bash_command=f"{BAYOU} verify --config {PIPELINE}", append_env=True
    )
    daily = ShortCircuitOperator(task_id="daily", python_callable=is_first_run_of_the_day)
    vacuum = BashOperator(task_id="vacuum", bash_command=f"{BAYOU} vacuum {TABLE}", append_env=True)
    ingest >> verify >> daily >> vacuum
