"""Memory of a process and its descendants."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_of", "process_tree"]


def process_tree(pid: int) -> dict[int, bytes]:
    """Return the command lines of a process and all its descendants, by process id."""
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
    """Return the memory of one process in bytes, as PSS: shared pages count proportionally."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
