"""How a commit went, and what it makes due."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from bayou.errors import BayouError
from bayou.kernel.engine import Engine
from bayou.kernel.upkeep.checkpoint import checkpoint
from bayou.protocol.properties import TableProperties

__all__ = ["PostCommitHook", "TransactionCommitResult", "hooks_due"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostCommitHook:
    """Work that a commit makes due; the commit stands whether or not it is done.

    Attributes:
        name: `checkpoint`.
    """

    name: str
    table: str
    version: int

    def run(self, engine: Engine) -> None:
        """Do it; repeatable, safe beside other writers."""
        checkpoint(engine, self.table, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """How a commit went.

    Attributes:
        version: the version it has become; where `already_committed`, the version that was read.
        already_committed: the table had recorded the transaction's identifiers before, so
            nothing was written.
        post_commit_hooks: what is due now.
    """

    version: int
    already_committed: bool = False
    post_commit_hooks: tuple[PostCommitHook, ...] = ()

    @property
    def is_ready_for_checkpoint(self) -> bool:
        """Whether a checkpoint is due (`delta.checkpointInterval`)."""
        return any(hook.name == "checkpoint" for hook in self.post_commit_hooks)

    def run_post_commit_hooks(self, engine: Engine) -> None:
        """Run what is due. A hook that fails is logged: the commit stands all the same."""
        for hook in self.post_commit_hooks:
            try:
                hook.run(engine)
            except BayouError as error:
                _LOG.warning(
                    "The %s of %s at version %d failed; the commit stands, and the next one tries "
                    "again. %s",
                    hook.name,
                    hook.table,
                    hook.version,
                    error,
                )


def hooks_due(
    table: str, version: int, configuration: Mapping[str, str]
) -> tuple[PostCommitHook, ...]:
    """What the commit of a version makes due."""
    interval = TableProperties(configuration).checkpoint_interval
    if version == 0 or version % interval:
        return ()
    return (PostCommitHook(name="checkpoint", table=table, version=version),)
