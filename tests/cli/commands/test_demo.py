"""What `bayou demo` proposes at its end."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

from bayou.cli.commands.demo import _commands


def test_what_to_try_next_can_be_copied_into_a_shell(tmp_path):
    path = str(tmp_path / "Ana's demo" / "flights")
    history, question = (shlex.split(c) for c in _commands(SimpleNamespace(table_path=path)))
    assert history[1:] == ["history", path]
    assert f'bayou.table("{path}")' in question[2]
    compile(question[2], "question", "exec")
