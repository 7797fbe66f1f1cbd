"""Tables that were restored while a pipeline looked away."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest.batch.target_checks import check_not_restored
from bayou.kernel import Table

TOPIC = SimpleNamespace(key="t", config=SimpleNamespace(accept_restore=None))


def test_a_restore_is_seen_also_where_others_commit_meanwhile(tmp_path):
    path = str(tmp_path / "t")
    for n in range(2):
        bayou.write(path, pa.table({"id": [n]}))
    bayou.table(path).restore(0)  # version 2
    for n in range(3):  # while the log is read
        bayou.write(path, pa.table({"id": [n]}))
    engine = for_path(path)
    table = Table.for_path(engine, path)
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        check_not_restored(engine, table, TOPIC, version=2, known=1)
    check_not_restored(engine, table, TOPIC, version=5, known=2)
