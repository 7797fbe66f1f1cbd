"""Redirects are read from table properties, whatever their form."""

from __future__ import annotations

import json

import pytest

from bayou.protocol.actions import Protocol
from bayou.protocol.features import explanation, unsupported_for_read, unsupported_for_write
from bayou.protocol.properties import Redirect, redirect_of
from bayou.protocol.schema import StructType

READY = "REDIRECT-READY"
IN_PROGRESS = "ENABLE-REDIRECT-IN-PROGRESS"


def redirected(feature: str, state: str = READY, spec: object = '{"destPath":"/b"}') -> dict:
    value = {"type": "PathBasedRedirect", "state": state, "spec": spec}
    return {f"delta.{feature}": json.dumps(value)}


@pytest.mark.parametrize("spec", ['{"sourcePath":"/a","destPath":"/b"}', {"redirectDest": "/b"}])
def test_the_destination_is_in_the_specification(spec):
    found = redirect_of(redirected("redirectWriterOnly-preview", spec=spec))
    assert found == Redirect(feature="redirectWriterOnly-preview", state=READY, destination="/b")
    assert found.is_ready


@pytest.mark.parametrize("value", ["", "[]", "{", '{"spec": 1}', '{"spec": "x"}'])
def test_a_malformed_property_counts_as_ready(value):
    found = redirect_of({"delta.redirectReaderWriter-preview": value})
    assert found is not None
    assert (found.is_ready, found.destination) == (True, None)


def test_a_table_without_the_property_has_no_redirect():
    assert redirect_of({"delta.appendOnly": "true"}) is None


def protocol(feature: str, *, reader: bool) -> Protocol:
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=[feature] if reader else [],
        writer_features=[feature],
    )


@pytest.mark.parametrize(
    ("feature", "state", "read", "write"),
    [
        ("redirectReaderWriter-preview", READY, False, False),
        ("redirectReaderWriter-preview", IN_PROGRESS, True, False),
        ("redirectWriterOnly-preview", READY, True, False),
        ("redirectWriterOnly-preview", IN_PROGRESS, True, False),
        ("redirectWriterOnly-preview", None, True, True),
        ("redirectReaderWriter-preview", None, True, True),
    ],
)
def test_what_a_redirect_forbids(feature, state, read, write):
    properties = {} if state is None else redirected(feature, state)
    table = protocol(feature, reader=feature.startswith("redirectReader"))
    forbidden_reads = unsupported_for_read(table, properties, StructType())
    forbidden_writes = unsupported_for_write(table, properties, StructType())
    assert forbidden_reads == ([] if read else [feature])
    assert forbidden_writes == ([] if write else [feature])
    if forbidden_writes:
        assert "/b" in explanation(forbidden_writes, properties)
