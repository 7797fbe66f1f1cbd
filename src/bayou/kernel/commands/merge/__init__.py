"""MERGE: join source rows with a table's rows, and update, delete or insert rows by clauses.

`plan` resolves the clauses, `join` finds the pairs of rows, `decisions` chooses a clause for each
row, `execution` runs and commits the plan.
"""

from bayou.kernel.commands.merge.clauses import ClauseAction, ClauseKind, MergeClause
from bayou.kernel.commands.merge.execution import MergeOperation, merge
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.commands.merge.result import MergeMetrics, MergeResult
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.merge.task import MergeTask, PreparedSource

__all__ = [
    "ClauseAction",
    "ClauseKind",
    "MergeClause",
    "MergeDefinition",
    "MergeMetrics",
    "MergeOperation",
    "MergePlan",
    "MergeResult",
    "MergeSource",
    "MergeTask",
    "PreparedSource",
    "merge",
]
