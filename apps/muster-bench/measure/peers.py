# SPDX-License-Identifier: Apache-2.0
"""Paths of tools and of the programs to compare with. The path of a program that is not installed
is ''. Its row stays in the table, marked "not installed"."""
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path


def program(name):
    return shutil.which(str(name)) or '' if name else ''


def in_folder(folder, name):
    return program(Path(folder) / 'bin' / name) if folder else ''


@dataclass
class Peers:
    build: Path  # release build directory
    torch_env: str = ''
    ft_env: str = ''
    frameworks_env: str = ''
    environ: dict = field(default_factory=dict)  # environment for started programs

    def __post_init__(self):
        ours = self.build / 'apps'
        bench = ours / 'muster-bench'
        # Restarts are measured, not the wait before them.
        self.environ = dict(os.environ, MUSTER_RESTART_DELAY='0', OMPI_ALLOW_RUN_AS_ROOT='1',
                            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
        self.muster = program(ours / 'muster/muster')
        self.muster_store = program(ours / 'muster-store/muster-store')
        self.tools = program(bench / 'muster-bench')
        self.floor = program(bench / 'bench-floor')
        self.ranks = program(bench / 'bench-ranks')
        self.ranks_open_mpi = program(bench / 'bench-openmpi')
        self.ranks_mpich = program(bench / 'bench-mpich')
        self.insight = program(bench / 'bench-insight')
        self.ranks_gloo = Path(__file__).parents[1] / 'ranks/gloo.py'
        self.ranks_ddp = Path(__file__).parents[1] / 'ranks/torch_ddp.py'
        self.ranks_warm = Path(__file__).parents[1] / 'ranks/warm.py'
        self.ranks_recovery = Path(__file__).parents[1] / 'ranks/recovery.py'
        self.ranks_commit = Path(__file__).parents[1] / 'ranks/commit.py'
        self.ranks_transformers = Path(__file__).parents[1] / 'ranks/warm_transformers.py'
        self.ranks_lightning = Path(__file__).parents[1] / 'ranks/warm_lightning.py'
        self.simulator = program(self.build / 'tests/sim/muster-sim')
        self.hydra = program('mpiexec.hydra')
        self.open_mpi = program('mpirun.openmpi')
        self.pdsh = program('pdsh')
        self.redis = program('redis-server')
        self.tee = program('tee')
        self.cat = program('cat')
        self.torchrun = in_folder(self.torch_env, 'torchrun')
        self.torch_python = in_folder(self.torch_env, 'python')
        self.ft_launcher = in_folder(self.ft_env, 'ft_launcher')
        self.frameworks_python = in_folder(self.frameworks_env, 'python')
