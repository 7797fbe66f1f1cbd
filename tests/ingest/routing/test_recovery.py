"""Routed tables that are replaced by copies."""

from __future__ import annotations

import shutil

import pytest

from bayou.errors import PipelineError
from support.routed_pipelines import TEMPLATE, configured, ids, proof


def test_an_older_copy_of_a_table_is_completed_if_the_default_table_is_as_old(routed):
    pipeline = routed()
    lake = pipeline.folder / "lake"
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    pipeline.take_in()
    for name in ("events", "events_a"):
        shutil.copytree(lake / name, pipeline.folder / "copies" / name)
    pipeline.produce({"id": 3, "kind": "a"}, {"id": 4, "kind": "b"}, {"id": 5})
    pipeline.take_in()

    def replace(name):
        shutil.rmtree(lake / name)
        shutil.copytree(pipeline.folder / "copies" / name, lake / name)

    replace("events_a")
    with pytest.raises(PipelineError, match="was rolled back from version 1 to 0"):
        pipeline.take_in()
    replace("events")
    assert pipeline.take_in().rows == 2
    found = (ids(pipeline), ids(pipeline, "events_a"), ids(pipeline, "events_b"))
    assert found == ([5], [1, 3], [2, 4])
    assert proof(pipeline).holds


def test_copies_that_were_made_in_between_need_no_order_after_the_default_table(routed):
    pipeline = routed()
    lake, copies = pipeline.folder / "lake", pipeline.folder / "copies"
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    pipeline.take_in()
    shutil.copytree(lake / "events", copies / "events")
    pipeline.produce({"id": 3, "kind": "a"}, {"id": 4, "kind": "b"}, {"id": 5, "kind": "c"})
    pipeline.take_in()
    for name in ("events_b", "events_a"):
        shutil.copytree(lake / name, copies / name)
    shutil.rmtree(lake)
    copies.rename(lake)
    pipeline.produce({"id": 6, "kind": "a"})
    pipeline.take_in()
    found = [ids(pipeline, f"events_{value}") for value in "abc"]
    assert found == [[1, 3, 6], [2, 4], [5]]
    assert proof(pipeline).holds


def test_a_table_that_was_deleted_on_purpose_is_created_again(routed):
    pipeline = routed()
    lake = pipeline.folder / "lake"
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    pipeline.take_in()
    shutil.rmtree(lake / "events_a")
    pipeline.produce({"id": 3, "kind": "b"})
    with pytest.raises(PipelineError, match="accept-deleted: \\[events_a\\]"):
        pipeline.take_in()
    configured(pipeline, TEMPLATE + "accept-deleted: [events_a]")
    pipeline.take_in()
    assert not (lake / "events_a").exists()
    pipeline.produce({"id": 4, "kind": "a"})
    pipeline.take_in()
    configured(pipeline, TEMPLATE)
    pipeline.produce({"id": 5, "kind": "a"})
    pipeline.take_in()
    assert (ids(pipeline, "events_a"), ids(pipeline, "events_b")) == ([4, 5], [2, 3])
    found = proof(pipeline)
    assert [(s.start, s.end) for p in found.partitions for s in p.gaps] == [(0, 1)]
