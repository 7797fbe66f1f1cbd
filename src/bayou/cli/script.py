"""The script `bayou`: runs the command line, or reports that the extra `cli` isn't installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `bayou.cli.main`, which needs the packages of the extra `cli`."""
    try:
        from bayou.cli.main import main as run

        run()
    except KeyboardInterrupt:  # while modules are imported; commands handle it themselves
        raise SystemExit(130) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "bayou"):
            raise
        sys.stderr.write(
            f"error: bayou: the Python package {package!r} isn't installed. Install the command "
            "line with: pip install 'bayou[cli]'.\n"
        )
        raise SystemExit(1) from None
