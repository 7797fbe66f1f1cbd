"""Paths that a vacuum leaves alone."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles


@given(st.lists(st.text(min_size=1), min_size=1), st.integers(1, 10), st.booleans())
def test_they_are_held_and_cut_into_parts_of_about_one_size(paths, parts, stable_hash):
    kept = ReferencedFiles([paths], stable_hash=stable_hash)
    assert kept.contains(paths).to_pylist() == [True] * len(paths)
    ends = kept.boundaries(parts)
    assert ends == sorted(set(ends))
    assert len(ends) < parts
    assert set(ends) <= set(paths)


def test_of_many_a_sample_says_where_to_cut():
    kept = ReferencedFiles([f"{i:07}" for i in range(k, k + 1000)] for k in range(0, 100_000, 1000))
    assert len(kept) == 100_000
    ends = [int(end) for end in kept.boundaries(4)]
    assert ends == pytest.approx([25_000, 50_000, 75_000], abs=500)


@pytest.mark.process
def test_those_that_travel_are_known_in_another_process():
    kept = ReferencedFiles([["a", "b/ä", "c"]], stable_hash=True)
    program = (
        "import pickle, sys\n"
        "kept = pickle.loads(sys.stdin.buffer.read())\n"
        "print(kept.contains(['a', 'x', 'b/\\u00e4']).to_pylist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(kept),
        capture_output=True,
        check=True,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.decode().strip() == "[True, False, True]"
