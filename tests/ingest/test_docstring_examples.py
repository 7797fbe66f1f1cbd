"""The examples of the public names of pipelines, engines, the Kafka source and test suites run."""

from __future__ import annotations

import inspect

import pytest

import bayou
import bayou.engines
import bayou.ingest
import bayou.spark.kafka
import bayou.testing
from support.docstring_examples import program_of, write_orders

MODULES = (bayou.engines, bayou.ingest, bayou.spark.kafka, bayou.testing)
WITHOUT_EXAMPLE = {
    "EngineSuite",
    "KafkaCluster",
    "KafkaDataSource",
    "KafkaTasks",
    "DATA_LOSS_ADVICE",
}
"""A suite to inherit from, the source, an option of Spark, and names of Bayou's layers."""

OBJECTS = {name: getattr(module, name) for module in MODULES for name in module.__all__}


@pytest.mark.parametrize("name", sorted(OBJECTS.keys() - WITHOUT_EXAMPLE))
def test_a_public_name_has_an_example_that_runs(name, small_pipeline, monkeypatch, capsys):
    program = program_of(inspect.getdoc(OBJECTS[name]) or "")
    assert program
    monkeypatch.chdir(small_pipeline.folder)
    write_orders("lake/orders")
    exec(compile(program, name, "exec"), {"bayou": bayou, **OBJECTS})
