"""Records what `bayou demo` prints on a terminal, as the picture at the top of the README.

usage: record_demo.py [PICTURE]

tmux runs the command in a terminal of 80 columns and gives its screen with colors; rich draws it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
WIDTH, HEIGHT = 80, 200
LIMIT = 600.0
"""Seconds until a run that hasn't ended is an error."""


def main() -> int:
    """Record, and write the picture; return the exit code."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with tempfile.TemporaryDirectory() as folder:
        screen = _screen(Path(folder))
    if screen is None:
        print("bayou demo failed; run it to see why", file=sys.stderr)
        return 1
    # The picture ends with the answer; history and further commands follow on a terminal.
    lines = Text.from_ansi(screen.partition("The table's history")[0].rstrip()).split()
    prompt = Text("$ bayou demo", style="bold")
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(prompt)
        for line in lines:
            console.print(line, overflow="crop", no_wrap=True)
        picture.write_text(_without_fonts(console.export_svg(title="bayou demo")))
    print(picture)
    return 0


def _screen(folder: Path) -> str | None:
    """Run the demo in a terminal; return what it shows at the end, None if the demo failed."""
    done = folder / "done"
    path = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    command = f"cd {folder} && {path} bayou demo; echo $? > {done}; sleep {LIMIT:.0f}"
    tmux = ["tmux", "-L", f"bayou-{folder.name}"]
    size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
    subprocess.run([*tmux, "new-session", "-d", *size, "bash", "-c", command], check=True)
    try:
        deadline = time.monotonic() + LIMIT
        while not done.exists() or not done.read_text().strip():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.5)
        if done.read_text().strip() != "0":
            return None
        capture = [*tmux, "capture-pane", "-e", "-p"]
        return subprocess.run(capture, check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def _without_fonts(svg: str) -> str:
    """Remove rich's fonts, which are on another host; the reader's monospaced font is used."""
    plain = re.sub(r"@font-face \{[^}]*\}|<!--.*?-->", "", svg)
    return plain.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


if __name__ == "__main__":
    sys.exit(main())
