"""Generates the pages of docs/reference that describe definitions in the code.

usage: write_reference.py

These are the configuration, Spark settings, expressions and table features. The pages of the Python
API are built from the docstrings by the site. `tools/check_docs.py` checks that the pages are up to
date.
"""

from __future__ import annotations

import sys
from pathlib import Path

import command_line_reference
import configuration_reference
import expressions_reference
import features_reference
import runbook_page
import settings_reference

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Return the content of every page by its file."""
    return {
        FOLDER / "command-line.md": command_line_reference.page(),
        FOLDER / "configuration.md": configuration_reference.page(),
        FOLDER / "expressions.md": expressions_reference.page(),
        FOLDER / "features.md": features_reference.page(),
        runbook_page.FILE: runbook_page.page(),
        FOLDER / "settings.md": settings_reference.page(),
    }


def main() -> int:
    """Write the pages; return the exit code."""
    for path, text in pages().items():
        path.write_text(text.rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
