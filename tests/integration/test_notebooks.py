"""The example notebooks run from their first cell to their last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"

pytestmark = pytest.mark.process


def outputs_of(name: str, folder: Path) -> str:
    """Run a notebook in a folder; return its outputs as text."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = [output.get("text") or str(output.get("data", {})) for output in outputs]
    return "\n".join(texts)


def test_the_notebook_of_the_first_table_runs(tmp_path: Path) -> None:
    outputs = outputs_of("first_table.ipynb", tmp_path)
    assert "version 1 has 6 rows, the latest version 6" in outputs
    assert "and back: 6" in outputs
    assert "MERGE" in outputs


@pytest.mark.spark
def test_the_notebook_of_the_dashboard_runs(tmp_path: Path) -> None:
    outputs = outputs_of("topic_dashboard.ipynb", tmp_path)
    assert "2100 orders, 2100 different ones" in outputs
    assert "Revenue by hour" in outputs
    assert "text/html" in outputs


def test_notebooks_are_stored_without_outputs() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
