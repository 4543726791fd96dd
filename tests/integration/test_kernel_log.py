# SPDX-License-Identifier: Apache-2.0
"""The judgement of a failure with the kernel log of this machine."""

import os
import unittest

from harness import JobCase

KERNEL_LOG = "/dev/kmsg"

# Reports an error of a GPU, as NVIDIA's driver does, and fails.
FAILS = f"""import os, sys
with open("{KERNEL_LOG}", "w") as log:
    log.write("test: NVRM: Xid (PCI:0000:3b:00): %s, pid=1, name=test\\n" % sys.argv[1])
raise ValueError("bad batch")
"""

MAY_BE_FAULTY = "this node may be faulty: rank 0 failed, and the kernel logged Xid 79"


@unittest.skipUnless(os.access(KERNEL_LOG, os.R_OK | os.W_OK), f"{KERNEL_LOG} is not accessible")
class KernelLog(JobCase):
    def fails(self, xid):
        return self.run_job("--max-restarts=1", self.python(FAILS), xid, code=1).err

    def test_an_error_of_a_gpu_blames_the_node(self):
        err = self.fails("79")
        self.assertIn("muster: warning: " + MAY_BE_FAULTY, err)
        self.assertIn("\n  " + MAY_BE_FAULTY, err)

    def test_an_error_that_a_program_causes(self):
        self.assertNotIn("faulty", self.fails("31"))

    def test_errors_before_the_job(self):
        self.fails("79")
        err = self.run_job(self.python("raise ValueError"), code=1).err
        self.assertNotIn("faulty", err)


if __name__ == "__main__":
    unittest.main()
