"""The DAG of `examples/airflow` runs in Airflow, and its tasks are commands of Bayou."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bayou

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
DAG = ROOT / "examples" / "airflow" / "bayou_dag.py"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """The environment variables of an Airflow with a new database."""
    home = tmp_path_factory.mktemp("airflow")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables = {
        **kept,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAG.parent),
    }
    execute(variables, "-m", "airflow", "db", "migrate")
    return variables


def execute(variables, *arguments):
    python = Path(os.environ["BAYOU_AIRFLOW"]) / "bin" / "python"
    done = subprocess.run(
        [python, *arguments], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.fixture
def run_dag(airflow, tmp_path):
    """Run the DAG; return the states of its tasks, and the commands that it ran."""
    calls = tmp_path / "calls"

    def run(command, hour):
        script = tmp_path / "bayou"
        script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{command}\n')
        script.chmod(0o755)
        variables = {
            **airflow,
            "BAYOU_COMMAND": str(script),
            "BAYOU_PIPELINE": str(tmp_path / "pipeline.yaml"),
            "BAYOU_TABLE": str(tmp_path / "lake" / "events"),
        }
        date = f"2026-01-{5 + hour:02}T{hour:02}:00:00+00:00"
        output = execute(variables, str(ROOT / "tests" / "airflow" / "run_dag.py"), str(DAG), date)
        result = json.loads(output.strip().splitlines()[-1])
        return result, [line.split() for line in calls.read_text().splitlines()]

    return run


def test_the_tasks_ingest_verify_and_vacuum_once_a_day(run_dag, tmp_path):
    rows = pa.table({"id": [1]})
    bayou.write(str(tmp_path / "lake" / "events"), rows)
    # `run` and `verify` need a broker; the vacuum is Bayou's.
    real = f'case "$1" in vacuum) PYTHONPATH={ROOT}/src {sys.executable} -m bayou.cli "$@" ;; esac'
    result, calls = run_dag(real, 0)
    assert result["downstream"] == {
        "ingest": ["verify"],
        "verify": ["daily"],
        "daily": ["vacuum"],
        "vacuum": [],
    }
    assert set(result["states"].values()) == {"success"}
    assert [words[0] for words in calls] == ["run", "verify", "vacuum"]
    operations = [c["operation"] for c in bayou.table(str(tmp_path / "lake" / "events")).history()]
    assert operations[:2] == ["VACUUM END", "VACUUM START"]


def test_other_runs_of_the_day_delete_nothing(run_dag):
    result, calls = run_dag("exit 0", 5)
    assert result["states"]["vacuum"] == "skipped"
    assert [words[0] for words in calls] == ["run", "verify"]


@pytest.mark.parametrize("code", [1, 2])
def test_a_failed_ingest_ends_the_run(run_dag, code):
    result, calls = run_dag(f"exit {code}", 6 + code)
    assert result["states"]["ingest"] == "failed"
    assert result["states"]["verify"] == "upstream_failed"
    assert [words[0] for words in calls] == ["run"]


def test_only_a_wrong_configuration_is_not_retried(airflow, tmp_path):
    program = f"""
import runpy, sys
dag = runpy.run_path({str(DAG)!r})
for code in (1, 2):
    script = {str(tmp_path / "bayou")!r}
    with open(script, "w") as file:
        file.write(f"#!/bin/sh\\nexit {{code}}\\n")
    import os
    os.chmod(script, 0o755)
    try:
        dag["run_bayou"]("run")
    except dag["AirflowException"] as error:
        sys.stdout.write(f"{{code}} {{type(error).__name__}}\\n")
"""
    output = execute({**airflow, "BAYOU_COMMAND": str(tmp_path / "bayou")}, "-c", program)
    assert [line for line in output.splitlines() if "Exception" in line] == [
        "1 AirflowException",
        "2 AirflowFailException",
    ]
