# SPDX-License-Identifier: Apache-2.0
"""muster.notebook_launcher: muster.launch with the arguments of Accelerate's notebook_launcher."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .launching import launch

_PRECISIONS = ("no", "fp16", "bf16", "fp8")
# 29500 is Accelerate's default. On one machine, both values mean any free port.
_ANY_PORT = ("0", "29500")


def gpus() -> int:
    """The number of GPUs, without initialising CUDA. 0 if PyTorch is not loaded."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.device_count()) if torch is not None else 0


def rendezvous(num_nodes: int, node_rank: int, master: Sequence[str], backend: str,
               endpoint: str) -> Dict[str, Any]:
    """The launcher's options for the job's machines. master: address and port."""
    address, port = master
    if num_nodes == 1 and not endpoint:
        return {} if port in _ANY_PORT else {"master_addr": address, "master_port": port}
    options: Dict[str, Any] = {"nnodes": num_nodes, "rdzv_backend": backend}
    if backend == "static":
        options["node_rank"] = node_rank
    return {**options, "rdzv_endpoint": endpoint or f"{address}:{port}"}


def notebook_launcher(function: Callable[..., Any], args: Sequence[Any] = (),
                      num_processes: Optional[int] = None, mixed_precision: str = "no",
                      use_port: Union[str, int] = "29500", master_addr: str = "127.0.0.1",
                      node_rank: int = 0, num_nodes: int = 1, rdzv_backend: str = "static",
                      rdzv_endpoint: str = "", rdzv_conf: Optional[Mapping[str, Any]] = None,
                      rdzv_id: str = "none", max_restarts: int = 0, monitor_interval: float = 0.1,
                      log_line_prefix_template: Optional[str] = None) -> List[Any]:
    """Accelerate's notebook_launcher on top of muster.launch. Replace the first line with the
    second:

        from accelerate import notebook_launcher
        from muster import notebook_launcher

    The arguments are Accelerate's. Differences: the notebook may already have initialised CUDA or
    created an Accelerator. Cells can launch repeatedly. The result is the list of the ranks'
    return values. Without `num_processes` there is one process per GPU, or a single process if
    there are no GPUs. A single process also runs as a separate process. On one machine,
    use_port="29500" means any free port. If a rank fails, muster.WorkerError is raised.
    monitor_interval has no effect, because muster does not poll.
    """
    if mixed_precision.lower() not in _PRECISIONS:
        raise ValueError(f"mixed_precision={mixed_precision!r}: choose one of {_PRECISIONS}")
    if node_rank >= num_nodes:
        raise ValueError(f"node_rank={node_rank} must be less than num_nodes={num_nodes}")
    options = rendezvous(num_nodes, node_rank, (master_addr, str(use_port)), rdzv_backend,
                         rdzv_endpoint)
    if rdzv_conf:
        options["rdzv_conf"] = [f"{key}={value}" for key, value in rdzv_conf.items()]
    if log_line_prefix_template is not None:
        options["log_line_prefix_template"] = log_line_prefix_template
    nproc = num_processes if num_processes is not None else max(1, gpus())
    return launch(function, *args, nproc=nproc,
                  env={"ACCELERATE_MIXED_PRECISION": mixed_precision.lower()}, rdzv_id=rdzv_id,
                  max_restarts=max_restarts, monitor_interval=monitor_interval, **options)
