"""Collected by `make test-ui` only, which brings the browser's driver and axe."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "BAYOU_UI" in os.environ else ["test_*.py"]
