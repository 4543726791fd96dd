# SPDX-License-Identifier: Apache-2.0
"""python -m muster ARGS: the launcher, for what starts modules only, as debuggers of editors do."""
import os
import sys

from .jobs import command, program


def main() -> None:
    """Becomes the launcher, whose Python programs run under this interpreter."""
    try:
        path = program.find()
    except FileNotFoundError as error:
        sys.exit(f"muster: {error}")
    python = os.environ.get("PYTHON_EXEC") or sys.executable or "python3"
    os.execve(path, [path, *sys.argv[1:]], command.environment(os.environ, python, {}))


if __name__ == "__main__":
    main()
