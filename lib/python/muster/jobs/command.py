# SPDX-License-Identifier: Apache-2.0
"""Builds the launcher's command line and environment from the arguments of muster.launch. Pure."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Union

Options = Mapping[str, Any]

# The line prefix of a rank's output if the caller passes no log_line_prefix_template.
PREFIX = "[rank ${rank}]: "

# Options that imply several machines, or that take the machines from a scheduler.
SEVERAL_MACHINES = ("nnodes", "hosts", "hostfile", "platform", "srun", "node_rank", "rdzv_backend",
                    "rdzv_endpoint")


def option(name: str, value: Any) -> List[str]:
    """An option in the launcher's syntax: True is a flag, a sequence is a comma-separated list;
    None and False omit it."""
    if value is None or value is False:
        return []
    word = "--" + name.replace("_", "-")
    if value is True:
        return [word]
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return [f"{word}={value}"]


def command(muster: str, nproc: Union[int, str], options: Options,
            program: Sequence[str]) -> List[str]:
    """The launcher's argv. Output lines are labelled unless label=False. Without an option for
    several machines, the job is limited to this machine and a scheduler's variables are ignored,
    because the caller may be only one of many programs in its allocation."""
    given: Dict[str, Any] = {"label": True, **options}
    if not any(given.get(name) for name in SEVERAL_MACHINES):
        given = {"platform": "none", "nnodes": 1, **given}
    if given["label"]:
        given.setdefault("log_line_prefix_template", PREFIX)
    args = [muster, f"--nproc-per-node={nproc}"]
    for name, value in given.items():
        args += option(name, value)
    return [*args, *program]


def uncompared(options: Options) -> Options:
    """Launchers on different machines normally compare the paths of their programs. Here all
    machines call the same function, but its file may have a different path on each machine, so this
    disables the comparison."""
    if not any(options.get(name) for name in SEVERAL_MACHINES):
        return options
    conf = options.get("rdzv_conf") or []
    words = [conf] if isinstance(conf, str) else list(conf)
    return {**options, "rdzv_conf": [*words, "any_program=true"]}


def environment(ours: Mapping[str, str], python: str, more: Mapping[str, str]) -> Dict[str, str]:
    """The environment for the launcher: ours, with PYTHON_EXEC set to the workers' interpreter."""
    return {**ours, "PYTHON_EXEC": python, **more}
