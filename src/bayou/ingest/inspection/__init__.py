"""Inspection of topics and their tables without running a pipeline.

`topic_status` reports the recorded offsets and the lag. `run_plan` previews a run. `verify_offsets`
verifies that a table has each record exactly once. This package imports neither Spark nor pydantic.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.ingest.inspection.dead_letters import (
        DeadLetter,
        LetterGroup,
        group_letters,
        list_letters,
    )
    from bayou.ingest.inspection.property_comparison import PropertyChange, compare_properties
    from bayou.ingest.inspection.run_plan import TopicPlan, plan_run
    from bayou.ingest.inspection.schema_changes import SchemaChange, compare_schemas, schema_rows
    from bayou.ingest.inspection.schema_comparison import (
        UnseenSettings,
        schema_file_changes,
        unseen_settings,
    )
    from bayou.ingest.inspection.table_summary import TableReport, table_report
    from bayou.ingest.inspection.topic_status import (
        ListedTopic,
        PartitionStatusReport,
        TopicStatusReport,
        TopicTables,
        list_topics,
        topic_status_reports,
    )
    from bayou.ingest.inspection.unconditional_commits import unconditional_commits_warning
    from bayou.ingest.inspection.verify_offsets import OffsetProof, PartitionProof, prove_offsets

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

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "DeadLetter": "bayou.ingest.inspection.dead_letters",
        "LetterGroup": "bayou.ingest.inspection.dead_letters",
        "ListedTopic": "bayou.ingest.inspection.topic_status",
        "OffsetProof": "bayou.ingest.inspection.verify_offsets",
        "PartitionProof": "bayou.ingest.inspection.verify_offsets",
        "PartitionStatusReport": "bayou.ingest.inspection.topic_status",
        "PropertyChange": "bayou.ingest.inspection.property_comparison",
        "SchemaChange": "bayou.ingest.inspection.schema_changes",
        "TableReport": "bayou.ingest.inspection.table_summary",
        "TopicPlan": "bayou.ingest.inspection.run_plan",
        "TopicStatusReport": "bayou.ingest.inspection.topic_status",
        "TopicTables": "bayou.ingest.inspection.topic_status",
        "UnseenSettings": "bayou.ingest.inspection.schema_comparison",
        "compare_properties": "bayou.ingest.inspection.property_comparison",
        "compare_schemas": "bayou.ingest.inspection.schema_changes",
        "group_letters": "bayou.ingest.inspection.dead_letters",
        "list_letters": "bayou.ingest.inspection.dead_letters",
        "list_topics": "bayou.ingest.inspection.topic_status",
        "plan_run": "bayou.ingest.inspection.run_plan",
        "prove_offsets": "bayou.ingest.inspection.verify_offsets",
        "schema_file_changes": "bayou.ingest.inspection.schema_comparison",
        "schema_rows": "bayou.ingest.inspection.schema_changes",
        "table_report": "bayou.ingest.inspection.table_summary",
        "topic_status_reports": "bayou.ingest.inspection.topic_status",
        "unconditional_commits_warning": "bayou.ingest.inspection.unconditional_commits",
        "unseen_settings": "bayou.ingest.inspection.schema_comparison",
    },
)
