# SPDX-License-Identifier: Apache-2.0
"""The launcher's exit code is that of the root cause."""

import os
import signal
import unittest

from harness import PUPPET, JobCase

NOT_FATAL = {"SIGCHLD", "SIGCLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGSTOP", "SIGTSTP", "SIGTTIN",
             "SIGTTOU"}


class ExitCodes(JobCase):
    def test_all_256_codes_of_a_worker_are_the_launchers(self):
        for code in range(256):
            self.run_job(*self.puppets(1, "exit", code), code=code)

    def test_all_fatal_signals_become_128_plus_their_number(self):
        for name in (s.name for s in signal.Signals if s.name not in NOT_FATAL):
            signo = signal.Signals[name].value
            ended = self.run_job(*self.puppets(1, "signal", signo))
            self.assertEqual(ended.code, 128 + signo, f"{name}: {ended}")
            aliases = {n for n, s in signal.Signals.__members__.items() if s == signo}
            if not name.startswith("SIGRT"):
                self.assertTrue(any(alias in ended.err for alias in aliases), ended)

    def test_the_first_failure_counts_not_what_followed_from_it(self):
        ended = self.run_job(*self.by_rank(
            "exec $PUPPET handle TERM touch $DIR/ready wait exit 3",
            "$PUPPET wait-file $DIR/ready exit 7; exit $?",
            "exec $PUPPET wait"), code=7)
        self.assertIn("rank 1 exited with code 7", ended.err)

    def test_a_worker_that_exits_0_while_others_run_is_fine(self):
        ended = self.run_job(*self.by_rank(
            "exec $PUPPET touch $DIR/gone exit 0", "exec $PUPPET wait-file $DIR/gone exit 0"))
        self.assertEqual((ended.code, ended.err), (0, ""), ended)

    def test_a_program_that_does_not_exist_is_127_and_named(self):
        for args in (["--no-python", "no-such-program"], ["--no-python", "./no/such"]):
            ended = self.run_job("--nproc-per-node", 2, *args, code=127)
            self.assertIn(args[-1], ended.err)

    def test_a_file_that_cannot_be_executed_is_126_and_named(self):
        path = self.folder / "data"
        path.write_text("no program\n")
        ended = self.run_job("--nproc-per-node", 2, "--no-python", path, code=126)
        self.assertIn(str(path), ended.err)

    def test_a_missing_interpreter_of_a_script_is_told(self):
        path = self.executable("#!/no/such/interpreter\n")
        ended = self.run_job(path)
        self.assertIn(ended.code, (126, 127), ended)
        self.assertIn("/no/such/interpreter", ended.err)

    def test_a_program_for_another_machine_is_126_and_says_for_which(self):
        path = self.folder / "program"
        path.write_bytes(b"\x7fELF\2\2\1" + bytes(9) + b"\0\2\0\x16" + bytes(44))
        path.chmod(0o755)
        ended = self.run_job("--nproc-per-node", 2, path, code=126)
        self.assertIn("exec format error: it was built for s390x, but this machine is",
                      ended.err)
        self.assertNotIn("/bin/sh", ended.err)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_a_program_on_a_noexec_mount_is_126_and_says_so(self):
        (self.folder / "mount").mkdir()
        self.executable("#!mount/program\n")
        prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o noexec none mount && '
                  'cd mount && echo "#!/bin/sh" >program && chmod 755 program && '
                  'cp program program0 && cd .. && exec "$@"', "sh"]
        where = "on a file system mounted noexec"
        for args, said in ((["mount/program"], f"mount/program is {where}; copy it"),
                           # Known only once the rank is.
                           (["mount/program${local_rank}"], f"it is {where}; copy it"),
                           (["./script"], f"its interpreter 'mount/program' is {where}")):
            ended = self.run_job(*args, prefix=prefix, cwd=self.folder, code=126)
            self.assertIn(said, ended.err)

    def test_usage_errors_are_2_in_one_line(self):
        for args in (["--nproc_per_nodes", "2", PUPPET], ["--nnodes", "2:1", PUPPET], []):
            ended = self.run_job(*args, code=2)
            self.assertEqual(ended.err.count("\n"), 1, ended)
