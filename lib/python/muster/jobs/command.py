# SPDX-License-Identifier: Apache-2.0
"""The launcher's command line and environment, from the arguments of muster.launch: pure."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Union

Options = Mapping[str, Any]

# The line prefix of a rank's output where the caller gives no log_line_prefix_template.
PREFIX = "[rank ${rank}]: "

# Options of which each asks for other machines, or for what a scheduler says of them.
SEVERAL_MACHINES = ("nnodes", "hosts", "hostfile", "platform", "srun", "node_rank", "rdzv_backend",
                    "rdzv_endpoint")


def option(name: str, value: Any) -> List[str]:
    """An option as the launcher takes it: True is a flag, a sequence a list with commas; None and
    False leave it out."""
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
    """The launcher's argv. The ranks' lines are labelled unless label=False. Without an option that
    is for several machines it is a job of this one: a scheduler's variables are not read, in whose
    allocation the caller may be only one of many programs."""
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
    """Launchers of several machines compare their programs. These are the same call, though each
    machine may have its file somewhere else."""
    if not any(options.get(name) for name in SEVERAL_MACHINES):
        return options
    conf = options.get("rdzv_conf") or []
    words = [conf] if isinstance(conf, str) else list(conf)
    return {**options, "rdzv_conf": [*words, "any_program=true"]}


def environment(ours: Mapping[str, str], python: str, more: Mapping[str, str]) -> Dict[str, str]:
    """The launcher's environment: ours, with this interpreter for the workers."""
    return {**ours, "PYTHON_EXEC": python, **more}
