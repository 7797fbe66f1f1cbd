"""JSON files that were there before the table, moved into it."""

from bayou.ingest.migration.migrate import MigrationReport, migrate_json
from bayou.ingest.migration.verify import FileCheck, verify_migration

__all__ = ["FileCheck", "MigrationReport", "migrate_json", "verify_migration"]
