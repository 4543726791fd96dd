# SPDX-License-Identifier: Apache-2.0
"""A script that sets MASTER_PORT itself: the launcher's message, and a check that its advice
helps."""
import subprocess
import unittest

import support

SCRIPT = support.worker("sets_port.py")


class MasterPort(support.TorchCase):
    @staticmethod
    def command(port):
        return [support.program("muster"), "--nproc-per-node=2", SCRIPT, port]

    def test_it_waits_in_vain_and_the_launcher_says_why(self):
        port = str(support.free_port())
        env = support.clean_environment(self.environment)
        with subprocess.Popen(self.command(port), env=env, text=True, stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as launcher:
            line = launcher.stderr.readline()  # PyTorch prints nothing before its own timeout
            launcher.terminate()
            launcher.communicate(timeout=support.DEADLINE)
        self.assertEqual(launcher.returncode, 143)
        self.assertIn(f" set MASTER_PORT to {port}, where no store is listening", line)
        self.assertIn("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", line)

    def test_the_advice_helps(self):
        port = str(support.free_port())
        done = support.run(self.command(port), env={**self.environment,
                                                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
        self.assertEqual(sorted(self.succeeded(done).splitlines()),
                         [f"rank {rank} met the others at {port}" for rank in (0, 1)])
        self.assertNotIn("MASTER_PORT", done.stderr)


if __name__ == "__main__":
    unittest.main()
