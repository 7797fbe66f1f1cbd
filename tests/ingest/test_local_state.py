"""The local state of a run."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from bayou.errors import PipelineError, PrerequisiteError
from bayou.ingest.local_state import topic_lock


def test_topics_of_odd_names_have_folders_of_their_own(tmp_path):
    names = ("user/events", "user_events", "user events", ".", "..", "user.events")
    with ExitStack() as running:
        states = {running.enter_context(topic_lock(tmp_path, name)) for name in names}
        assert len(states) == len(names)
        assert {state.resolve().parent for state in states} == {tmp_path.resolve()}


def test_a_second_copy_is_told_to_wait(tmp_path):
    with (
        topic_lock(tmp_path, "t"),
        pytest.raises(PipelineError, match="another process runs it"),
        topic_lock(tmp_path, "t"),
    ):
        pass


def test_those_who_migrate_keep_a_run_out_and_not_each_other(tmp_path):
    with (
        topic_lock(tmp_path, "t", shared=True),
        topic_lock(tmp_path, "t", shared=True),
        pytest.raises(PipelineError, match="runs it or migrates files into its table"),
        topic_lock(tmp_path, "t"),
    ):
        pass
    with topic_lock(tmp_path, "t"):
        pass


def test_a_path_that_cannot_be_used_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PrerequisiteError, match=r"set connector\.state-path"),
        topic_lock(tmp_path / "file", "t"),
    ):
        pass


def test_a_state_path_with_a_nul_character_is_one_clear_error(tmp_path):
    with (
        pytest.raises(PrerequisiteError, match="contains a NUL character. Remove the character"),
        topic_lock(tmp_path / "a\0b", "t"),
    ):
        pass
