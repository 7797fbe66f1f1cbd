from bayou.testing.engine_suite import EngineSuite
from bayou.testing.file_catalog import FileCatalog

__all__ = ["EngineSuite", "FileCatalog"]
