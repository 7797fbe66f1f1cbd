"""Inspection of topics and their tables without running a pipeline.

`topic_status` reports positions and lag, `run_plan` previews a run, `offset_proof` verifies that a
table has each record exactly once.
"""

from bayou.ingest.inspection.dead_letters import Letter, LetterGroup, group_letters, list_letters
from bayou.ingest.inspection.offset_proof import OffsetProof, PartitionProof, prove_offsets
from bayou.ingest.inspection.run_plan import TopicPlan, plan_run
from bayou.ingest.inspection.schema_comparison import (
    SchemaChange,
    compare_schemas,
    masks_without_field,
    schema_file_changes,
    schema_rows,
)
from bayou.ingest.inspection.table_report import TableReport, table_report
from bayou.ingest.inspection.topic_status import (
    ListedTopic,
    PartitionStanding,
    TopicStanding,
    TopicTables,
    list_topics,
    topic_standings,
)

__all__ = [
    "Letter",
    "LetterGroup",
    "ListedTopic",
    "OffsetProof",
    "PartitionProof",
    "PartitionStanding",
    "SchemaChange",
    "TableReport",
    "TopicPlan",
    "TopicStanding",
    "TopicTables",
    "compare_schemas",
    "group_letters",
    "list_letters",
    "list_topics",
    "masks_without_field",
    "plan_run",
    "prove_offsets",
    "schema_file_changes",
    "schema_rows",
    "table_report",
    "topic_standings",
]
