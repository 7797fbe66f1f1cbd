"""Append and overwrite: the plan, the files that tasks write, and the commit.

Start reading at `request`, which defines the options of a write.
"""

from bayou.kernel.commands.write.commit import WriteResult, commit_write
from bayou.kernel.commands.write.plan import WritePlan, plan_write
from bayou.kernel.commands.write.request import TableWrite, WriteMode

__all__ = ["TableWrite", "WriteMode", "WritePlan", "WriteResult", "commit_write", "plan_write"]
