"""MERGE: rows of a source put into a table, by keys."""

from bayou.kernel.operations.merge.clauses import ClauseAction, ClauseKind, MergeClause
from bayou.kernel.operations.merge.execution import MergeOperation, merge
from bayou.kernel.operations.merge.metrics import MergeMetrics
from bayou.kernel.operations.merge.outcome import MergeOutcome
from bayou.kernel.operations.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.operations.merge.source import MergeSource
from bayou.kernel.operations.merge.work import MergeWork, PreparedSource

__all__ = [
    "ClauseAction",
    "ClauseKind",
    "MergeClause",
    "MergeDefinition",
    "MergeMetrics",
    "MergeOperation",
    "MergeOutcome",
    "MergePlan",
    "MergeSource",
    "MergeWork",
    "PreparedSource",
    "merge",
]
