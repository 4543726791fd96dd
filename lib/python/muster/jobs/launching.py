# SPDX-License-Identifier: Apache-2.0
"""muster.launch."""
from __future__ import annotations

import os
import sys
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from . import program, worker
from .answers import Answers, root_cause
from .command import command, environment, uncompared
from .listener import Listener
from .logs import Logs
from .errors import JobError, WorkerError
from .pickling import modules_of, pack_call, with_context
from .run import Run

Path = Union[str, "os.PathLike[str]"]
Warm = Union[bool, str, Sequence[str]]


def launch(function: Union[Callable[..., Any], Path], *args: Any, nproc: Union[int, str] = 2,
           warm: Warm = False, env: Optional[Mapping[str, str]] = None,
           kwargs: Optional[Mapping[str, Any]] = None, **options: Any) -> List[Any]:
    """Calls function(*args) in `nproc` processes, as the ranks of a job, and returns their results
    by rank. Each process has RANK, WORLD_SIZE, MASTER_ADDR and so on, as under torchrun.

        def train(lr):
            torch.distributed.init_process_group()
            ...
            return loss

        losses = muster.launch(train, 0.1, nproc=4)

    function: anything that cloudpickle can pickle, such as functions and classes from modules, from
    __main__ and from notebook cells, lambdas and closures. A str or a path is a program that is run
    with these arguments, like `muster PROGRAM`; the result is then None for each rank.
    nproc: number of ranks. "auto": one per GPU, or without GPUs, one per CPU. Also "gpu" and
    "cpu".
    warm: True imports the installed modules that the function uses once, and forks the workers
    from that process; a name or a list of names imports those modules instead.
    env: additional variables for the workers. kwargs: keyword arguments of the function.
    options: the launcher's options by name, such as max_restarts=3, log_dir="logs" or nnodes=2 (see
    `muster --help`).

    The workers are separate programs and never forks of this process, which may have initialised
    CUDA and may have threads. Their output appears on sys.stdout and sys.stderr; each line starts
    with the rank, unless label=False. Any thread may call launch(), any number of times. It
    returns when the last process of the job has exited. Only the main thread receives Ctrl-C,
    which stops the job and then raises KeyboardInterrupt. If this process dies, muster stops the
    job.

    The job runs only on this machine, even inside a scheduler's allocation. With nnodes=N, every
    node calls launch() and gets the results of its own ranks, by rank. hosts= and hostfile= start
    programs on other machines; with a function they raise ValueError.

    Raises WorkerError for the rank that failed first, with its exception as __cause__; JobError if
    no rank can be named, for example after an invalid option; TypeError if an object cannot be
    pickled; FileNotFoundError if the launcher is not found. With log_dir, the first two have the
    job's directory as `logs` and the contents of its report.json as `report`.
    """
    if isinstance(function, (str, os.PathLike)):
        return launch_program([os.fspath(function), *map(str, args)], nproc, env,
                               {"warm": warm, **options})
    if not callable(function):
        raise TypeError(f"muster.launch: {function!r} is neither a function nor a path")
    if warm is True:
        warm = modules_of(function) or False
    return launch_function(with_context(pack_call(function, args, kwargs or {})), nproc, env,
                            {"warm": warm, **options})


def _run(words: Sequence[str], env: Optional[Mapping[str, str]], logs: Logs,
         listener: Optional[Listener] = None) -> Tuple[int, str]:
    """Returns the launcher's exit code and report."""
    run = Run(words, environment(os.environ, sys.executable or "python3", env or {}), listener)
    logs.launcher_pid = run.pid
    return run.wait(), run.stderr_tail


def launch_function(job: Tuple[bytes, bytes], nproc: Union[int, str],
                    env: Optional[Mapping[str, str]], options: Mapping[str, Any]) -> List[Any]:
    """Runs a function that is already pickled. ValueError: `hosts` or `hostfile` is set."""
    for name in ("hosts", "hostfile"):
        if options.get(name):
            raise ValueError(f"muster.launch: {name}= works only with programs: functions and "
                             "their results are not sent to other machines. Pass the path of a "
                             "program, or call muster.launch with nnodes= on every machine")
    answers = Answers()
    with Logs(options) as logs:
        listener = Listener(job, answers)
        try:
            words = command(program.find(), nproc, uncompared(options),
                            [worker.__file__, listener.path])
            code, report = _run(words, env, logs, listener)
        finally:
            listener.close()
        return answers.results(code, report)


def launch_program(args: Sequence[str], nproc: Union[int, str], env: Optional[Mapping[str, str]],
                   options: Mapping[str, Any]) -> List[None]:
    """Runs a program with its arguments. Returns None for each rank; a single None if nproc is a
    str."""
    with Logs(options) as logs:
        code, said = _run(command(program.find(), nproc, options, args), env, logs)
        if code == 0:
            return [None] * (nproc if isinstance(nproc, int) else 1)
        cause = root_cause(said)
        if cause is not None:
            raise WorkerError(*cause, code)
        raise JobError(f"muster exited with code {code}\n{said}".rstrip(), code)
