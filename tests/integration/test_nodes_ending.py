# SPDX-License-Identifier: Apache-2.0
"""How a multi-node job ends: nodes that finish early leave, and the store of rank 0 stays."""

import pathlib
import signal

from harness import eventually
from nodes import LEASE, LONG_LEASE, NodesCase, last_block


# Rank 1 closes its connection to rank 0 in `finally`, and exits only after rank 0's exit was seen.
LOST_CONNECTION = """
import json, os, socket, sys, time
rank, place = os.environ["RANK"], sys.argv[1] + "/peer"
def wait_while(condition):
    while condition():
        time.sleep(0.005)
if rank == "1":
    server = socket.socket(socket.AF_UNIX)
    server.bind(place + ".new")
    server.listen()
    os.rename(place + ".new", place)
    peer, _ = server.accept()
    pid = int(peer.recv(16))
    try:
        raise ValueError("bad batch 17")
    finally:
        peer.close()
        wait_while(lambda: os.path.exists(f"/proc/{pid}"))
wait_while(lambda: not os.path.exists(place))
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(place)
    peer.send(str(os.getpid()).encode())
    peer.recv(1)
if "recorded" in sys.argv:
    message = {"message": "Connection reset by peer",
               "extraInfo": {"timestamp": str(int(time.time()) - 5)}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": message}, file)
print("ConnectionResetError: Connection reset by peer", file=sys.stderr)
sys.exit(4)
"""


class Success(NodesCase):
    def test_nodes_that_finish_early_leave_at_once(self):
        job, nodes, one = self.form("4", 4, conf=LONG_LEASE)
        job.order(one, 2, "exit 0")
        job.ends(nodes[2], code=0)
        job.order(one, 3, "exit 0")
        job.ends(nodes[3], code=0)
        # The first rank's node stays as long as others may need the store, although it has
        # finished.
        job.order(one, 0, "exit 0")
        eventually(lambda: not nodes[0].worker_pids(), "rank 0 has ended")
        job.order(one, "1.store", "")
        eventually(lambda: [event for event in job.story.events() if event["what"] == "store"],
                   "the store was used")
        self.assertTrue(job.story.events()[-1]["ok"], job.story.events()[-1])
        self.assertIsNone(nodes[0].process.poll())
        job.order(one, 1, "exit 0")
        job.ends(nodes[0], nodes[1], code=0)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])

    def test_the_coordinator_stays_as_well_where_rank_0_is_elsewhere(self):
        job = self.cluster("3", conf=LONG_LEASE)
        nodes = {}
        for number in (1, 2, 3):
            nodes[number] = job.start(number, options=["--node-rank", 3 - number])
            eventually(job.is_hosted, "node 1 leads, and will have rank 2")
        one = job.round(3)
        self.assertEqual(one.nodes, ["n3", "n2", "n1"])
        job.order(one, 2, "exit 0")
        eventually(lambda: not nodes[1].worker_pids(), "the leader's worker has ended")
        job.order(one, 1, "exit 0")
        job.ends(nodes[2], code=0)
        job.order(one, 0, "exit 0")
        job.ends(nodes[1], nodes[3], code=0)

    def test_a_failure_after_some_have_finished_and_left_ends_the_job(self):
        job, nodes, one = self.form("3", 3, conf=LONG_LEASE)
        job.order(one, 1, "exit 0")
        job.ends(nodes[1], code=0)
        job.order(one, 2, "exit 9")
        first, last = job.ends(nodes[0], nodes[2], code=9)
        self.assertEqual(last_block(first), last_block(last))

    def test_too_few_are_left_when_a_node_falls_silent_after_others_have_succeeded(self):
        job, nodes, one = self.form("1:3", 3, conf=f"last_call_timeout=0.5,lease={LEASE}")
        job.order(one, 1, "exit 0")
        job.ends(nodes[1], code=0)
        nodes[2].stop_all()
        self.addCleanup(nodes[2].kill_all)
        ended, = job.ends(nodes[0], code=69)
        self.assertRegex(ended.err, "too few nodes remain for another round: 1 of 3 have "
                                    r"succeeded and left, missing: \S+ \(silent")
        nodes[2].kill_all()

    def test_all_at_once(self):
        job, *_ = self.form("5", 5, conf=LONG_LEASE)
        for ended in job.finish():
            self.assertEqual(ended.said, "")


class Report(NodesCase):
    def test_each_nodes_report_json_names_the_same_cause(self):
        import json
        logs = self.folder / "logs"
        job, _, one = self.form("2", 2, nproc=2, conf=LONG_LEASE,
                                options=["--log-dir", logs, "--redirects", 3])
        job.order(one, 3, "fail the last line of rank 3")
        job.ends(code=1)
        reports = [json.loads(path.read_text()) for path in logs.glob("*/report.json")]
        self.assertEqual(len(reports), 2)
        causes = [report.get("root_cause") for report in reports]
        self.assertEqual(causes[0], causes[1])
        self.assertIn("the last line of rank 3", json.dumps(causes[0]))
        for node in job.nodes:
            self.assertIn("the last line of rank 3", node.err())

    def test_a_recorded_exception_wins_over_what_followed_from_it(self):
        # Like PyTorch's @record: the error file contains the time of the exception.
        script = self.python(
            "import json, os, sys, time, pathlib\n"
            "rank, folder = os.environ['RANK'], pathlib.Path(sys.argv[1])\n"
            "if rank == '1':\n"
            "    stamp = str(int(time.time()) - 5)\n"
            "    json.dump({'message': {'message': 'ValueError: the cause', 'extraInfo':\n"
            "        {'py_callstack': 'Traceback (most recent call last):\\n'\n"
            "         '  raise\\nValueError: the cause\\n',\n"
            "         'timestamp': stamp}}},\n"
            "        open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
            "    (folder / 'raised').touch()\n"
            "    while not (folder / 'gone').exists(): time.sleep(0.005)\n"
            "    sys.exit(1)\n"
            "while not (folder / 'raised').exists(): time.sleep(0.005)\n"
            "if rank == '0':\n"
            "    sys.exit(4)\n"
            "time.sleep(1000)\n")
        job = self.cluster("3", conf=LONG_LEASE, options=["--shutdown-timeout", 20])
        nodes = job.start_all(3, program=[script, str(self.folder)])
        # Rank 1 ignores no signal: it dies of our SIGTERM, or exits on its own a moment before.
        ended = job.ends(*nodes, code=nodes[0].end().code)
        blocks = [last_block(one) for one in ended]
        self.assertEqual(blocks[0], blocks[1])
        self.assertEqual(blocks[0], blocks[2])
        self.assertIn("ValueError: the cause", "\n".join(blocks[0]))

    def check_cause_of_a_lost_connection(self, *options):
        job = self.cluster("2", conf=LONG_LEASE)
        nodes = job.start_all(2, program=[self.python(LOST_CONNECTION), self.folder, *options])
        blocks = [last_block(one) for one in job.ends(*nodes, code=1)]
        self.assertEqual(blocks[0], blocks[1])
        self.assertIn("rank 1 exited with code 1", blocks[0][0])
        self.assertIn("ValueError: bad batch 17", "\n".join(blocks[0]))

    def test_whoever_lost_its_connection_to_another_node_is_not_the_cause(self):
        self.check_cause_of_a_lost_connection()

    def test_nor_if_its_error_file_is_older_than_the_end_of_the_cause(self):
        self.check_cause_of_a_lost_connection("recorded")

    def test_the_exit_code_of_an_interrupted_node_is_its_own(self):
        job, nodes, _ = self.form("2:3", 3, conf=LONG_LEASE)
        nodes[1].kill(signal.SIGINT)
        job.ends(nodes[1], code=130)
        job.round(2)
        job.finish(nodes[0], nodes[2])


class Folders(NodesCase):
    def test_membership_changes_do_not_wipe_earlier_logs(self):
        logs = self.folder / "logs"
        job = self.cluster("1:2", conf="last_call_timeout=0.3,lease=60",
                           options=["--log-dir", logs, "--redirects", 3])
        job.start(1)
        job.round(1)
        job.start(2)
        job.round(2)
        job.finish()
        attempts = sorted(pathlib.Path(path).name for path in logs.glob("*/attempt_*"))
        self.assertEqual(attempts, ["attempt_0", "attempt_0", "attempt_1"])
