"""Every public name of `bayou.spark` has an example in its docstring, and the examples run."""

from __future__ import annotations

import inspect

import pytest

import bayou.spark
from support.docstring_examples import program_of, setup_of, write_orders

SETUP = setup_of("docs/reference/bayou.spark.md")


PROGRAMS = {
    name: program_of(inspect.getdoc(getattr(bayou.spark, name)) or "")
    for name in bayou.spark.__all__
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_public_name_has_an_example_that_runs(
    name, session_for_examples, tmp_path, monkeypatch, capsys
):
    program = PROGRAMS[name]
    assert program
    monkeypatch.chdir(tmp_path)
    write_orders("lake/orders")
    scope = {}
    for text, source in ((SETUP, "setup"), (program, name)):
        # Spark's JVM has another current folder.
        absolute = text.replace("lake/", f"{tmp_path}/lake/")
        exec(compile(absolute, source, "exec"), scope)
