"""Files of a commit that isn't made."""

from __future__ import annotations

import pytest

from bayou.errors import CommitConflictError, CommitFailedError, PipelineError, StorageError
from bayou.ingest.uncommitted import unless_committed

CONFLICT = CommitConflictError("another was first", table="t", winning_version=1)


@pytest.mark.parametrize(
    ("error", "deleted"),
    [
        (CONFLICT, True),
        (PipelineError("refused", topic="t"), True),
        (CommitFailedError("nobody can say", table="t", version=1), False),
        (StorageError("the store is away", path="t"), False),
    ],
)
def test_files_go_with_a_commit_that_was_refused_and_stay_where_it_may_be_there(error, deleted):
    called = []
    with pytest.raises(type(error)) as raised, unless_committed(lambda: called.append(1)):
        raise error
    assert (raised.value, bool(called)) == (error, deleted)


def test_nothing_goes_with_a_commit_that_was_made():
    called = []
    with unless_committed(lambda: called.append(1)):
        pass
    assert called == []


def test_a_store_that_fails_while_they_go_hides_no_error():
    def discard():
        raise StorageError("the store is away", path="t")

    with pytest.raises(CommitConflictError), unless_committed(discard):
        raise CONFLICT
