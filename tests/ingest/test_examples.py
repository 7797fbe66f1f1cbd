"""The examples are configurations that run."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from bayou.errors import ConfigurationError
from bayou.ingest.config import PipelineConfig, load_configuration
from bayou.ingest.schema.files import topic_schemas

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}


RUN = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("file", RUN, ids=lambda f: f.stem)
def test_an_example_is_a_valid_configuration(file):
    configuration = load_configuration(file, environment=ENVIRONMENT)
    assert topic_schemas(configuration).keys() == configuration.connector.topics.keys()


def test_every_key_of_the_plan_has_its_effect():
    configuration = load_configuration(EXAMPLES / "plan" / "append.yaml", environment=ENVIRONMENT)
    assert configuration.notices == ()
    assert configuration.topics[0].config.destination.delta_config.checkpoint_interval == 10


def test_the_upserts_of_the_plan_can_be_run():
    configuration = load_configuration(EXAMPLES / "plan" / "upsert.yaml", environment=ENVIRONMENT)
    configuration.check_runnable()
    assert [t.upsert_keys.columns for t in configuration.topics] == [
        ("user_id", "session_id"),
        ("order_id",),
        ("id",),
    ]


def test_the_schema_for_editors_takes_the_examples():
    validator = jsonschema_rs.validator_for(PipelineConfig.model_json_schema())
    for file in EXAMPLES.rglob("*.yaml"):
        assert validator.is_valid(YAML(typ="safe").load(file.read_text())), file
    assert not validator.is_valid({"connector": {"topics": {"a": {"kafka-topc": "x"}}}})


def test_an_event_time_that_is_no_time_is_refused_before_anything_runs():
    setting = "connector.topics.user-events.event-time=user_id"
    configuration = load_configuration(
        EXAMPLES / "plan" / "append.yaml", settings=[setting], environment=ENVIRONMENT
    )
    with pytest.raises(ConfigurationError, match="'user_id' is a string"):
        topic_schemas(configuration)
