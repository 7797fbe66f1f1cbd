"""Migration of existing JSON files into a topic's table.

Start at `migrate`. `ledger` records which files were migrated, and `verify` compares the records of
the files with the rows of the table.
"""

from bayou.ingest.migration.ledger import Ledger, migrated_offsets
from bayou.ingest.migration.migrate import migrate_json
from bayou.ingest.migration.verify import FileCheck, verify_migration

__all__ = [
    "FileCheck",
    "Ledger",
    "migrate_json",
    "migrated_offsets",
    "verify_migration",
]
