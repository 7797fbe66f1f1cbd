"""Append and overwrite: the plan, the files that tasks write, and the commit.

Start at `request`, which defines the options of a write.
"""

from bayou.kernel.commands.write.commit import WriteOutcome, commit_write
from bayou.kernel.commands.write.plan import WritePlan, plan_write
from bayou.kernel.commands.write.request import TableWrite, WriteMode

__all__ = ["TableWrite", "WriteMode", "WriteOutcome", "WritePlan", "commit_write", "plan_write"]
