"""How a commit went, and what it makes due."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayou.kernel.engine import Engine
from bayou.kernel.metrics import TransactionMetrics
from bayou.kernel.transaction.post_commit_hooks import PostCommitHook, run_hooks

__all__ = ["TransactionCommitResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """How a commit went.

    Attributes:
        version: the version it has become; where `already_committed`, the version that was read.
        already_committed: the table had recorded the transaction's identifiers before, so
            nothing was written.
        post_commit_hooks: what is due now, in the order in which to do it.
        metrics: what it took, None where nothing was measured.
    """

    version: int
    already_committed: bool = False
    post_commit_hooks: tuple[PostCommitHook, ...] = ()
    metrics: TransactionMetrics | None = field(default=None, compare=False)

    @property
    def is_ready_for_checkpoint(self) -> bool:
        """Whether a checkpoint is due (`delta.checkpointInterval`)."""
        return any(hook.name == "checkpoint" for hook in self.post_commit_hooks)

    def run_post_commit_hooks(self, engine: Engine) -> None:
        """Run what is due. A hook that fails is logged: the commit stands all the same."""
        run_hooks(engine, self.post_commit_hooks)
