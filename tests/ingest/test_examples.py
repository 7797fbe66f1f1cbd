"""The examples are configurations that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.ingest.config import load_configuration
from bayou.ingest.schemas import topic_schemas

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda f: f.stem)
def test_an_example_is_a_valid_configuration(file):
    configuration = load_configuration(file, environment=ENVIRONMENT)
    assert topic_schemas(configuration).keys() == {t.key for t in configuration.topics}


def test_the_plan_says_which_of_its_keys_have_no_effect_yet():
    configuration = load_configuration(EXAMPLES / "plan" / "append.yaml", environment=ENVIRONMENT)
    assert [n.key.rsplit(".", 1)[-1] for n in configuration.notices] == [
        "enable-optimize",
        "optimize-interval",
        "enable-compaction",
        "compaction-interval",
        "enable-vacuum",
        "vacuum-retention-hours",
    ]
    assert configuration.topics[0].config.destination.delta_config.checkpoint_interval == 10
