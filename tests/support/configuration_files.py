"""Writes and loads configuration files, and returns the error of an invalid file."""

from __future__ import annotations

import textwrap

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

__all__ = ["MINIMAL", "load", "problem"]


MINIMAL = """\
connector:
  kafka:
    bootstrap-servers: "localhost:9092"
  topics:
    events:
      kafka-topic: "events.v1"
      destination:
        table-path: "lake/events"
"""


def write(tmp_path, text):
    file = tmp_path / "pipeline.yaml"
    file.write_text(textwrap.dedent(text))
    return file


def load(tmp_path, text, settings=(), environment=None):
    return load_configuration(
        write(tmp_path, text), settings=settings, environment=environment or {}
    )


def problem(tmp_path, text, settings=(), environment=None):
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text, settings, environment)
    return caught.value
