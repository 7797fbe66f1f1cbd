"""MERGE: rows of a source matched with rows of a table by a condition.

`plan` checks the clauses, `join` finds the pairs, `decisions` chooses a clause for each pair,
`execution` runs and commits the plan.
"""

from bayou.kernel.commands.merge.clauses import ClauseAction, ClauseKind, MergeClause
from bayou.kernel.commands.merge.execution import MergeOperation, merge
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.commands.merge.result import MergeMetrics, MergeOutcome
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.merge.task import MergeWork, PreparedSource

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
