"""Tests and examples for authors of engines and catalogs.

`EngineSuite` tests an engine; `FileCatalog` is an example of a catalog.
"""

from bayou.testing.engine_suite import EngineSuite
from bayou.testing.file_catalog import FileCatalog

__all__ = ["EngineSuite", "FileCatalog"]
