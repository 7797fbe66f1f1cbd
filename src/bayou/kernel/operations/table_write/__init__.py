"""Rows into a table: what `write` means in each of its modes, from the plan to the commit."""

from bayou.kernel.operations.table_write.commit import WriteOutcome, commit_write
from bayou.kernel.operations.table_write.plan import WritePlan, plan_write
from bayou.kernel.operations.table_write.request import TableWrite, WriteMode

__all__ = ["TableWrite", "WriteMode", "WriteOutcome", "WritePlan", "commit_write", "plan_write"]
