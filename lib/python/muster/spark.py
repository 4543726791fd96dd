# SPDX-License-Identifier: Apache-2.0
"""PySpark's TorchDistributor on top of muster.launch; replaces pyspark.ml.torch.distributor.

    from muster.spark import TorchDistributor
    loss = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train, 0.1)

local_mode=True starts the ranks on the driver and uses only Spark's GPU assignment.
local_mode=False runs one barrier stage. Each of its tasks starts the launcher for one node, with
one rank for each GPU of the task, or a single rank if it has no GPUs. The executors also need this
package, but not pandas or pyarrow. While the ranks run, their output goes to the driver's
sys.stdout and sys.stderr, and to the executors' logs.
"""
from __future__ import annotations

import os
import pickle
import secrets
import socket
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .jobs.command import uncompared
from .jobs.errors import JobError
from .jobs.launching import launch_function, launch_program
from .jobs.pickling import pack_call, with_context
from .jobs.worker import packed_exception
from .spark_output import Address, OutputServer, to_driver

DEVICES = "CUDA_VISIBLE_DEVICES"
TRAIN_ON_SSL = "pytorch.spark.distributor.ignoreSsl"

# A task's work: a program's command line as a list of words, or a pickled call.
Work = Union[List[str], bytes]
# Pickled: (None, results of the task's ranks) on success, ((error, pickled cause), []) on failure.
Outcome = Tuple[Optional[Tuple[JobError, Optional[bytes]]], List[Any]]


def visible(owned: Sequence[str], wanted: int) -> str:
    """The value of CUDA_VISIBLE_DEVICES for `wanted` of the GPU addresses that Spark assigned to
    this process. As in PySpark, addresses are indices into CUDA_VISIBLE_DEVICES if that is set,
    because CUDA's GPU 0 may be GPU 4 on the machine. RuntimeError: there are too few GPUs."""
    given = os.environ.get(DEVICES)
    gpus = list(owned)
    if given is not None:
        shown = [gpu.strip() for gpu in given.split(",") if gpu.strip()]
        wrong = [each for each in owned if not each.isdecimal() or int(each) >= len(shown)]
        if wrong:
            raise RuntimeError(f"Spark assigned GPU {wrong[0]} to this process, but {wrong[0]} is "
                               f"not a valid index into {DEVICES}={given}; unset {DEVICES}, or "
                               "have Spark's discovery script report only the GPUs in that list")
        gpus = [shown[int(each)] for each in owned]
    if len(gpus) < wanted:
        raise RuntimeError(f"{wanted} GPUs are needed, but Spark assigned {len(gpus)} to this "
                           "process; use fewer processes, or use_gpu=False")
    return ",".join(gpus[:wanted])


def free_port(address: str) -> int:
    """A port that is currently free on this machine."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def meet(context: Any) -> Dict[str, Any]:
    """The launcher's options for this task. Collective: all tasks of the barrier stage call it."""
    hosts = [each.address.rpartition(":")[0] or each.address for each in context.getTaskInfos()]
    mine = context.partitionId()
    if len(hosts) == 1:
        return {}
    offer = f"{free_port(hosts[0])} {secrets.token_hex(16)}" if mine == 0 else ""
    port, job = context.allGather(offer)[0].split()
    return {"nnodes": len(hosts), "node_rank": mine, "rdzv_backend": "static",
            "rdzv_endpoint": f"{hosts[0]}:{port}", "rdzv_id": job}


def start(work: Work, ranks: int, env: Dict[str, str], options: Dict[str, Any]) -> List[Any]:
    """Runs the ranks of one node and returns their results."""
    if isinstance(work, bytes):
        return launch_function(with_context(work), ranks, env, options)
    return launch_program(work, ranks, env, uncompared(options))


def outcome(work: Work, ranks: int, env: Dict[str, str], options: Dict[str, Any]) -> bytes:
    """The Outcome of one node, pickled. An error is also returned as a result, so that Spark does
    not retry."""
    try:
        found: Outcome = (None, start(work, ranks, env, options))
    except JobError as error:
        cause = packed_exception(error.__cause__) if error.__cause__ else None
        found = ((error, cause), [])
    from pyspark import cloudpickle  # the driver and the executors have the same version
    data: bytes = cloudpickle.dumps(found)
    return data


def task(work: Work, ranks: int, use_gpu: bool,
         driver: Address) -> Callable[[Any], Iterator[bytes]]:
    """The function that Spark calls in each task. driver: where to send the output."""
    def run(_: Any) -> Iterator[bytes]:
        from pyspark import BarrierTaskContext
        context = BarrierTaskContext.get()
        owned = context.resources()["gpu"].addresses if use_gpu else []
        env = {DEVICES: visible(owned, ranks) if use_gpu else ""}
        with to_driver(driver):
            found = outcome(work, ranks, env, meet(context))
        yield found
    return run


def merge(outcomes: Sequence[bytes]) -> List[Any]:
    """The results of all tasks, in task order. If a rank failed, raises the error of the rank that
    failed first, with its exception as __cause__. Only that rank's node has the exception."""
    found: List[Outcome] = [pickle.loads(each) for each in outcomes]
    errors = [error for error, _ in found if error is not None]
    if not errors:
        return [result for _, results in found for result in results]
    raised, cause = next((each for each in errors if each[1] is not None), errors[0])
    raised.__cause__ = pickle.loads(cause) if cause is not None else None
    raise raised


class TorchDistributor:
    """PySpark's TorchDistributor, with its arguments.

    num_processes: total ranks. local_mode: run on the driver instead of a barrier stage on the
    executors. use_gpu: one GPU for each rank; if False, ranks see no GPU. Needs an active
    SparkSession.
    """

    def __init__(self, num_processes: int = 1, local_mode: bool = True,
                 use_gpu: bool = True) -> None:
        from pyspark.sql import SparkSession
        if num_processes < 1:
            raise ValueError(f"num_processes={num_processes} must be a positive integer")
        self.spark: Any = SparkSession.active()
        if not hasattr(self.spark, "sparkContext"):
            raise RuntimeError("muster.spark needs a classic SparkSession, because Spark Connect "
                               "does not support barrier stages of RDDs")
        self.num_processes = num_processes
        self.local_mode = local_mode
        self.use_gpu = use_gpu

    def run(self, train_object: Union[Callable[..., Any], str], *args: Any, **kwargs: Any) -> Any:
        """Runs train_object(*args, **kwargs) on every rank and returns rank 0's result. If
        train_object is a str, it is the path of a program that must exist on every executor;
        `args` are its arguments, and the result is None. Raises muster.WorkerError, like
        muster.launch."""
        if isinstance(train_object, str):
            if kwargs:
                raise ValueError("a program takes no keyword arguments")
            work: Work = [train_object, *map(str, args)]
        else:
            from pyspark import cloudpickle
            work = pack_call(train_object, args, kwargs, by=cloudpickle)
        return (self._on_driver(work) if self.local_mode else self._on_executors(work))[0]

    def _on_driver(self, work: Work) -> List[Any]:
        env = {DEVICES: ""}
        if self.use_gpu:
            resources = self.spark.sparkContext.resources
            owned = resources["gpu"].addresses if "gpu" in resources else []
            env[DEVICES] = visible(owned, self.num_processes)
        return start(work, self.num_processes, env, {})

    def _on_executors(self, work: Work) -> List[Any]:
        self._check_encryption()
        ranks = self._gpus_of_a_task() if self.use_gpu else 1
        nodes = self.num_processes // ranks
        stage = self.spark.sparkContext.parallelize(range(nodes), nodes).barrier()
        with OutputServer(self._conf("spark.driver.host", "")) as server:
            run = task(work, ranks, self.use_gpu, server.address)
            return merge(stage.mapPartitions(run).collect())

    def _conf(self, key: str, otherwise: str) -> str:
        return str(self.spark.sparkContext.getConf().get(key, otherwise))

    def _gpus_of_a_task(self) -> int:
        gpus = int(self._conf("spark.task.resource.gpu.amount", "0"))
        if gpus < 1 or self.num_processes % gpus:
            raise RuntimeError(f"num_processes={self.num_processes} must be a multiple of "
                               f"spark.task.resource.gpu.amount, which is {gpus} (0: tasks have no "
                               "GPU)")
        return gpus

    def _check_encryption(self) -> None:
        """Refuses to run ranks if Spark's encryption is enabled, as PySpark does, because the
        ranks' traffic is not encrypted."""
        if (self._conf("spark.ssl.enabled", "false") == "true"
                and self._conf(TRAIN_ON_SSL, "false") != "true"):
            raise RuntimeError("spark.ssl.enabled is set, but ranks communicate without "
                               f"encryption; set {TRAIN_ON_SSL}=true to accept that")
