"""An Airflow DAG: ingest a pipeline's topics, prove the result, vacuum the table once a day.

Bayou is installed in an environment of its own; the variables name its folder and the pipeline.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.providers.standard.operators.python import PythonOperator, ShortCircuitOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

BAYOU = os.environ.get("BAYOU_COMMAND", "/opt/bayou/bin/bayou")
PIPELINE = os.environ.get("BAYOU_PIPELINE", "/srv/lake/pipeline.yaml")
TABLE = os.environ.get("BAYOU_TABLE", "/srv/lake/user_events")

WRONG_CONFIGURATION = 2
"""The exit code for a wrong configuration, which no retry corrects."""


def run_bayou(*arguments: str) -> None:
    """Run a command of Bayou; its output goes to the log of the task."""
    code = SubprocessHook().run_command([BAYOU, *arguments]).exit_code
    if code == WRONG_CONFIGURATION:
        raise AirflowFailException(f"bayou {arguments[0]}: wrong configuration")
    if code:
        raise AirflowException(f"bayou {arguments[0]}: exit code {code}")


def is_first_run_of_the_day(dag_run: DagRun) -> bool:
    """Whether the run is the first one after midnight, UTC."""
    return dag_run.run_after.hour == 0


with DAG(
    dag_id="bayou",
    description="Kafka topics to Delta tables, exactly once",
    schedule="@hourly",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=5)},
) as dag:
    ingest = PythonOperator(
        task_id="ingest", python_callable=run_bayou, op_args=["run", PIPELINE, "--once", "--json"]
    )
    verify = PythonOperator(
        task_id="verify", python_callable=run_bayou, op_args=["verify", "--config", PIPELINE]
    )
    daily = ShortCircuitOperator(task_id="daily", python_callable=is_first_run_of_the_day)
    vacuum = PythonOperator(task_id="vacuum", python_callable=run_bayou, op_args=["vacuum", TABLE])
    ingest >> verify >> daily >> vacuum
