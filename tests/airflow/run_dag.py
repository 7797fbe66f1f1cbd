"""Runs the DAG once, in Airflow's environment, and prints the state of each task as JSON.

usage: run_dag.py DAG_FILE TIME
"""

from __future__ import annotations

import datetime as dt
import json
import runpy
import sys


def main(file: str, time: str) -> None:
    """Run the DAG without its retries, and print the result."""
    dag = runpy.run_path(file)["dag"]
    for task in dag.tasks:
        task.retries = 0
    run = dag.test(run_after=dt.datetime.fromisoformat(time))
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    downstream = {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks}
    sys.stdout.write("\n" + json.dumps({"states": states, "downstream": downstream}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
