"""What is collected where."""

from __future__ import annotations

import os

# Their environment is made by `make test-peers`, which says so.
collect_ignore = [] if "BAYOU_PEERS" in os.environ else ["peers"]
