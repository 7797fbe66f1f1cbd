"""Hatch's hook for the URLs of the package: pages of the repository that the release is built in.

The release's workflow passes the repository's URL in `BAYOU_REPOSITORY_URL`. Other builds have no
URLs, so that a fork doesn't name a repository that isn't its own.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Sets `project.urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs if the repository is known."""
        repository = os.environ.get("BAYOU_REPOSITORY_URL", "").rstrip("/")
        metadata["urls"] = (
            {
                "Source": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
                "Documentation": f"{repository}/tree/main/docs",
            }
            if repository
            else {}
        )
