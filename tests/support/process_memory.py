"""What a process and all that it started take in memory."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_of", "process_tree"]


def process_tree(pid: int) -> dict[int, bytes]:
    """Ids of a process and of all below it, with their command lines."""
    parents: dict[int, tuple[int, bytes]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                status = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = (int(status.rpartition(")")[2].split()[1]), command)
    found, wanted = set(), {pid} & parents.keys()
    while wanted:
        found |= wanted
        wanted = {child for child, (parent, _) in parents.items() if parent in wanted}
    return {process: parents[process][1] for process in found}


def memory_of(pid: int) -> int:
    """Bytes of one process; what it shares with others counts by its part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
