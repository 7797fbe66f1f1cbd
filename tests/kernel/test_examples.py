"""Every public name of the kernel has an example in its docstring, and the examples run."""

from __future__ import annotations

import inspect

import pytest

import bayou.kernel
from support.docstring_examples import program_of, setup_of, write_orders

ALIASES = {"LoadedVectors"}
"""Names of types without a docstring of their own."""

NAMES = sorted(set(bayou.kernel.__all__) - ALIASES)
SETUP = setup_of("docs/reference/bayou.kernel.md")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch, capsys):
    program = program_of(inspect.getdoc(getattr(bayou.kernel, name)) or "")
    assert program
    monkeypatch.chdir(tmp_path)
    write_orders("lake/orders")
    scope = {}
    exec(compile(SETUP, "setup", "exec"), scope)
    exec(compile(program, name, "exec"), scope)
