# SPDX-License-Identifier: Apache-2.0
"""A worker's environment under muster and under PyTorch's own torchrun, variable by variable."""
import json
import os
import re
import unittest

import support

DUMP = support.worker("dump_environment.py")
RANKS = 3

# The only variables whose values may differ, with the expected pattern under muster.
FREE = {
    "MASTER_ADDR": r"127\.0\.0\.1",  # torchrun: the machine's name, which may be unresolvable
    "MASTER_PORT": r"[1-9]\d{3,4}",
    "TORCHELASTIC_RUN_ID": r".+",
    "MUSTER_AGENT": r"muster-agent-[0-9a-f]{16}",  # torchrun has neither
    "MUSTER_EPOCH": "1",
}
ERROR_FILE = r"{folder}/.+/attempt_0/{local_rank}/error\.json"


class EnvironmentTest(support.TorchCase):
    maxDiff = None

    def dump(self, command, args, env, name):
        """The environments and arguments of the workers, by rank."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        done = support.run([*command, *args, DUMP, folder, "--my", "${local_rank}"],
                           env={**self.environment, **env})
        self.succeeded(done)
        workers = []
        for rank in range(RANKS):
            with open(os.path.join(folder, f"{rank}.json")) as file:
                workers.append(json.load(file))
        return workers

    def both(self, args, env=None):
        args = [f"--nproc-per-node={RANKS}", *args]
        reference = self.dump(support.torchrun(), args, env or {}, "torchrun")
        ours = self.dump([support.program("muster")], args, env or {}, "muster")
        return list(zip(ours, reference))

    def compare(self, args, env=None, free=FREE):
        """Equal names and values; under muster, the variables with patterns match them."""
        for rank, (mine, theirs) in enumerate(self.both(args, env)):
            self.assertEqual(mine["arguments"], theirs["arguments"])
            mine, theirs = mine["environment"], theirs["environment"]
            for name, pattern in free.items():
                self.assertRegex(mine.pop(name, ""), f"^{pattern}$", name)
                theirs.pop(name, None)
            self.check_error_file(rank, mine.pop("TORCHELASTIC_ERROR_FILE"),
                                  theirs.pop("TORCHELASTIC_ERROR_FILE"))
            self.assertEqual(mine, theirs)

    def check_error_file(self, rank, mine, theirs):
        if not theirs:
            self.assertEqual(mine, "")
            return
        pattern = ERROR_FILE.format(folder=re.escape(self.folder), local_rank=rank)
        self.assertRegex(mine, f"^{pattern}$")
        self.assertRegex(theirs, f"^{pattern}$")

    def test_standalone(self):
        cpus = len(os.sched_getaffinity(0))
        # torchrun: always 1, with a warning
        self.compare(["--standalone"], free={**FREE, "OMP_NUM_THREADS": str(max(1, cpus // RANKS))})

    def test_what_the_user_set_is_kept(self):
        self.compare(["--max-restarts=3", "--role=trainer", "--signals-to-handle=SIGTERM"],
                     env={"OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
                          "CUDA_VISIBLE_DEVICES": "4,5,6", "MINE": "a b\nc", "RANK": "99",
                          "MASTER_ADDR": "elsewhere", "TORCHELASTIC_RUN_ID": "old"})

    def test_virtual_local_ranks_without_log_files(self):
        self.compare(["--virtual-local-rank", "--log-dir=/dev/null"],
                     env={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "4, 5,6"})

    def test_an_address_and_an_id_that_the_user_chose(self):
        port = support.free_port()
        self.compare(["--master-addr=localhost", f"--master-port={port}", "--rdzv-id=job7",
                      "--virtual-local-rank"],
                     free={name: FREE[name] for name in ("MUSTER_AGENT", "MUSTER_EPOCH")},
                     env={"OMP_NUM_THREADS": "1", "HIP_VISIBLE_DEVICES": "7,8,9"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
