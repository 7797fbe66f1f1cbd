"""Every error that people can meet has its section in `docs/operations/errors.md`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bayou import errors

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "bayou"
PAGE = (ROOT / "docs" / "operations" / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL))
OF_PIPELINES = ("PipelineError", "KafkaError", "PrerequisiteError")


def calls(folder):
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield file, node


def kinds_of_commands():
    for _, call in calls(SOURCES / "cli"):
        for word in call.keywords:
            if word.arg == "kind" and isinstance(word.value, ast.Constant):
                yield word.value.value


def kinds_of_pipelines():
    for file in (SOURCES / "ingest").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if bases & set(errors.__all__):
                    yield node.name


def wording(node):
    """What a message says whatever it is about."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(wording(part) for part in parts)
        case _:
            return " "


def messages():
    for folder in (SOURCES / "ingest", SOURCES / "spark" / "kafka"):
        for file, call in calls(folder):
            if "demo" in file.parts or file.name == "embedded_broker.py" or not call.args:
                continue
            if isinstance(call.func, ast.Name) and call.func.id in OF_PIPELINES:
                text = wording(call.args[0])
                if re.search(r"[a-z]", text.replace("topic", "")):  # else it is another's
                    yield pytest.param(call.func.id, text, id=f"{file.stem}-{call.lineno}")


def phrases(kind):
    """The first cells of the table in a type's section."""
    cells = re.findall(r"^\| (`.*?) \|", SECTIONS[kind], re.MULTILINE)
    return re.findall(r"`([^`]+)`", "".join(cells))


def test_every_type_has_its_section_and_no_other_has():
    types = {*errors.__all__, *kinds_of_commands(), *kinds_of_pipelines()}
    assert set(SECTIONS) == types


@pytest.mark.parametrize(("kind", "text"), list(messages()))
def test_what_a_pipeline_says_is_in_the_table_of_its_type(kind, text):
    assert any(phrase in text for phrase in phrases(kind)), text


@pytest.mark.parametrize("kind", sorted(SECTIONS))
def test_a_section_says_what_it_means_and_what_to_do(kind):
    if kind in ("BayouError", "TableError", "ProtocolError", "CommitError"):
        assert "only its subclasses are raised" in SECTIONS[kind]
        return
    assert "*Means:*" in SECTIONS[kind]
    assert re.search(r"\*[Dd]o:\*", SECTIONS[kind])


def test_every_section_of_the_runbook_says_what_it_means_how_to_check_and_what_to_do():
    runbook = (ROOT / "docs" / "operations" / "runbook.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^#|\Z)", runbook, re.MULTILINE | re.DOTALL)
    assert len(sections) > 20
    for title, text in sections:
        assert re.findall(r"\*(Means|Check|Do):\*", text)[:3] == ["Means", "Check", "Do"], title


def test_every_phrase_of_a_table_is_said_somewhere():
    said = [(kind, text) for kind, text in (param.values for param in messages())]
    for kind in OF_PIPELINES:
        for phrase in phrases(kind):
            assert any(kind == k and phrase in text for k, text in said), phrase
