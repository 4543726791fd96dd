# SPDX-License-Identifier: Apache-2.0
"""python -m muster ARGS: runs the launcher, for tools that can only start modules (IDE
debuggers)."""
import os
import sys

from .jobs import command, program


def main() -> None:
    """Replaces this process with the launcher, which runs Python programs with this interpreter."""
    try:
        path = program.find()
    except FileNotFoundError as error:
        sys.exit(f"muster: {error}")
    python = os.environ.get("PYTHON_EXEC") or sys.executable or "python3"
    os.execve(path, [path, *sys.argv[1:]], command.environment(os.environ, python, {}))


if __name__ == "__main__":
    main()
