"""Inspection of topics and their tables without running a pipeline.

`topic_status` reports the recorded offsets and the lag, `run_plan` previews a run, and
`offset_proof` verifies that a table has each record exactly once.
"""

from bayou.ingest.inspection.dead_letters import (
    DeadLetter,
    LetterGroup,
    group_letters,
    list_letters,
)
from bayou.ingest.inspection.offset_proof import OffsetProof, PartitionProof, prove_offsets
from bayou.ingest.inspection.property_comparison import PropertyChange, compare_properties
from bayou.ingest.inspection.run_plan import TopicPlan, plan_run
from bayou.ingest.inspection.schema_comparison import (
    SchemaChange,
    UnseenSettings,
    compare_schemas,
    schema_file_changes,
    schema_rows,
    unseen_settings,
)
from bayou.ingest.inspection.table_report import TableReport, table_report
from bayou.ingest.inspection.topic_status import (
    ListedTopic,
    PartitionStatusReport,
    TopicStatusReport,
    TopicTables,
    list_topics,
    topic_status_reports,
)
from bayou.ingest.inspection.unconditional_commits import unconditional_commits_warning

__all__ = [
    "DeadLetter",
    "LetterGroup",
    "ListedTopic",
    "OffsetProof",
    "PartitionProof",
    "PartitionStatusReport",
    "PropertyChange",
    "SchemaChange",
    "TableReport",
    "TopicPlan",
    "TopicStatusReport",
    "TopicTables",
    "UnseenSettings",
    "compare_properties",
    "compare_schemas",
    "group_letters",
    "list_letters",
    "list_topics",
    "plan_run",
    "prove_offsets",
    "schema_file_changes",
    "schema_rows",
    "table_report",
    "topic_status_reports",
    "unconditional_commits_warning",
    "unseen_settings",
]
