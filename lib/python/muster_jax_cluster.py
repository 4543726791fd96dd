# SPDX-License-Identifier: Apache-2.0
"""Lets jax.distributed.initialize() without arguments find the job that muster has started. JAX
reads the coordinator's address and the device IDs from variables, but the number of processes and
the process ID only from a cluster type. muster sets MUSTER_JAX for workers of JAX programs. Without
this variable, or before the program imports JAX's cluster types, nothing happens.

This is a separate module that imports almost nothing, because every Python process of such a job
runs install()."""
import os

VARIABLE = "MUSTER_JAX"
_MODULE = "jax._src.clusters"


def install():
    """Registers the cluster type as soon as the program imports JAX."""
    if not os.environ.get(VARIABLE):
        return
    from muster_on_import import when_imported
    when_imported(_MODULE, register)


def register(clusters):
    """clusters: JAX's module jax._src.clusters. A second call does nothing."""
    base = clusters.ClusterEnv
    if any(kind.__name__ == "MusterCluster" for kind in base._cluster_types):
        return

    class MusterCluster(base):
        """The job, as described by the worker's variables."""
        name = "muster"

        @classmethod
        def is_env_present(cls):
            return all(os.environ.get(variable) for variable in
                       ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))

        @classmethod
        def get_coordinator_address(cls, *_, **__):
            return os.environ["JAX_COORDINATOR_ADDRESS"]

        @classmethod
        def get_process_count(cls):
            return int(os.environ["JAX_NUM_PROCESSES"])

        @classmethod
        def get_process_id(cls):
            return int(os.environ["JAX_PROCESS_ID"])

        @classmethod
        def get_local_process_id(cls):
            return None  # JAX_LOCAL_DEVICE_IDS selects devices; without it, the worker uses all

    # JAX uses the first type that detects its environment. Slurm's would select one device even for
    # the only worker on a node, and the type for Kubernetes would query the API server.
    base._cluster_types.remove(MusterCluster)
    base._cluster_types.insert(0, MusterCluster)
