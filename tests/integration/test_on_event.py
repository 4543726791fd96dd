# SPDX-License-Identifier: Apache-2.0
"""--on-event: the user's command receives events of the job and never blocks the job."""

import json
import os
import signal

from harness import JobCase


class OnEvent(JobCase):
    def test_the_command_gets_each_event_as_in_the_log(self):
        told = self.folder / "told"
        told.mkdir()
        ended = self.run_job(*self.by_rank(
            "exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))",
            options=["--max-restarts=1", "--log-dir", self.folder / "logs",
                     f"--on-event=cat >{told}/$$"]), code=0)
        self.assertEqual(len(ended.err.splitlines()), 1, ended)  # the restart
        run, = (self.folder / "logs").iterdir()
        kinds = {"job_started", "restart", "worker_failed", "job_ended"}
        logged = [line for line in (run / "events.jsonl").read_text().splitlines()
                  if json.loads(line)["event"] in kinds]
        self.assertEqual({json.loads(line)["event"] for line in logged}, kinds)
        self.assertEqual(sorted(file.read_text() for file in told.iterdir()),
                         sorted(line + "\n" for line in logged))

    def test_commands_that_hang_hold_nothing_up_and_are_killed(self):
        job = self.job(*self.by_rank(
            "exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))",
            options=["--max-restarts=1",
                     f"--on-event=grep -q job_ended && touch {self.folder}/ended; "
                     "sleep 1000; true"]))
        self.wait_for("ended")
        job.kill(signal.SIGTERM)  # ends the wait for the commands, and does not change the outcome
        ended = self.wait_for_exit(job, 0)
        self.assertNotIn("left running", ended.err)
        self.assert_nothing_left(job)

    def test_the_end_of_the_job_waits_for_its_command(self):
        self.run_job(*self.by_rank(
            "exit 5", options=[f"--on-event=grep -q job_ended && while ! test -e {self.folder}/go; "
                               f"do touch {self.folder}/go; done && touch {self.folder}/done"]),
            code=5)
        self.assertTrue((self.folder / "done").exists())

    def test_a_command_may_close_its_output(self):
        self.run_job(*self.by_rank(
            "true", options=[f"--on-event=exec >{self.folder}/out 2>&1; grep -q job_ended && "
                             f"sleep 0.3 && touch {self.folder}/done"]), code=0)
        self.assertTrue((self.folder / "done").exists())

    def test_what_a_command_leaves_in_the_background_is_killed(self):
        ended = self.run_job(*self.by_rank(
            "exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))",
            options=["--max-restarts=1", "--on-event=sleep 1000 & true"]), code=0)
        self.assertNotIn("left running", ended.err)

    def test_the_command_is_no_worker_and_its_failure_is_none(self):
        ended = self.run_job(*self.by_rank(
            "true", options=[f'--on-event=echo "rank=$RANK" >{self.folder}/rank; exit 7']),
            env=dict(os.environ), code=0)
        self.assertEqual(ended.err, "")
        self.assertEqual((self.folder / "rank").read_text(), "rank=\n")

    def test_torchruns_event_handlers_are_refused_with_the_alternative(self):
        ended = self.run_job("--event-log-handler=mine", "true", code=2)
        self.assertIn("use --on-event=COMMAND", ended.err)
