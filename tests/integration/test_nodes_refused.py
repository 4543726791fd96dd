# SPDX-License-Identifier: Apache-2.0
"""Nodes that do not belong together are refused, and the error shows both values. Other nodes are
unaffected."""

import socket

from nodes import NEVER, WORKER, NodesCase


class Refused(NodesCase):
    def refuse(self, *texts, hidden="\0", **changed):
        """A two-node job that waits for its second node; a wrong node comes before the right one.
        It sees all texts except the hidden one."""
        job = self.cluster("2", conf=NEVER, id="right", options=["--max-restarts", "1"])
        first = job.start(1)
        first.wait_for_text("1 of 2")
        wrong = job.start(2, label="wrong", **changed)
        ended, = job.ends(wrong, code=2)
        for some in texts:
            self.assertIn(some, ended.err)
        self.assertNotIn(hidden, ended.err)
        self.assertEqual(len(ended.said.splitlines()), 1, ended)
        first.wait_for_text("refused node")
        for some in texts:
            self.assertIn(some, first.err())
        job.start(2)
        self.assertEqual(job.round(2).nodes, ["n1", "n2"])
        job.finish()

    def test_another_job(self):
        self.refuse("'wrong'", hidden="right", id="wrong")

    def end_both(self, text, **changed):
        """The same program with different options: neither of two nodes waits for the other one."""
        job = self.cluster("2", conf=NEVER, options=["--max-restarts", "1"])
        first = job.start(1)
        first.wait_for_text("1 of 2")
        refused, waited = job.ends(job.start(2, label="wrong", **changed), first, code=2)
        self.assertIn(text, refused.err)
        self.assertRegex(waited.err, f"refused node '[^']+': {text}")

    def test_another_number_of_nodes(self):
        self.end_both("--nnodes is 2:2 in the job and 2:3 on the refused node", nnodes="2:3")

    def test_another_program_or_other_arguments(self):
        self.refuse(f"the job runs '{WORKER}', but the refused node runs '{WORKER} --lr=0.2'",
                    "any_program=true", program=[WORKER, "--lr=0.2"])

    def test_two_programs_in_one_job_where_asked_for(self):
        job = self.cluster("2", conf=NEVER + ",any_program=true")
        job.start(1)
        job.start(2, program=[WORKER, "--lr=0.2"])
        job.round(2)
        job.finish()

    def test_another_budget(self):
        self.end_both("--max-restarts is 1 in the job and 7 on the refused node",
                      options=["--max-restarts", "7"])

    def test_another_restart(self):
        self.end_both("--restart is group in the job and rank on the refused node",
                      options=["--restart=rank"])

    def test_other_options_with_another_program_may_be_another_job(self):
        self.refuse("--nnodes is 2:2 in the job and 2:3 on the refused node", nnodes="2:3",
                    program=[WORKER, "--lr=0.2"])

    def test_while_the_job_runs(self):
        job, nodes, one = self.form("2:3", 2, conf="last_call_timeout=0.5", id="right")
        for changed in ({"id": "wrong"}, {"nnodes": "2"}, {"options": ["--max-restarts", "7"]}):
            job.ends(job.start(3, label="wrong", **changed), code=2)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name],
                         "nobody was disturbed")
        job.finish(*nodes)

    def test_something_that_is_no_muster(self):
        # A web server at the endpoint: the error says so, and the node retries until the timeout.
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            job = self.cluster("2", endpoint=f"127.0.0.1:{server.getsockname()[1]}",
                               conf="join_timeout=3")
            node = job.start(1)
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                ended, = job.ends(node, code=69)
        self.assertIn("127.0.0.1", ended.err)

    def test_strangers_at_the_endpoint_disturb_nobody(self):
        job = self.cluster("2", conf=NEVER)
        first = job.start(1)
        first.wait_for_text("1 of 2")
        host, port = job.endpoint.rsplit(":", 1)
        open_ones = []
        for rubbish in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64, b"\xa7MUSTER",
                        b"\xa7MUSTER\x0d\x00\xff\xff\xff\xff", b"\x00\xce\xf7\x85\x3c"):
            stranger = socket.create_connection((host, int(port)))
            self.addCleanup(stranger.close)
            stranger.sendall(rubbish)
            open_ones.append(stranger)
        job.start(2)
        one = job.round(2)
        job.finish()
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])

    def test_another_version_is_told_so(self):
        job = self.cluster("2", conf=NEVER)
        job.start(1).wait_for_text("1 of 2")
        host, port = job.endpoint.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as newer:
            newer.sendall(b"\xa7MUSTER" + (99).to_bytes(2, "little"))
            newer.settimeout(30)
            answer = b""
            while part := newer.recv(4096):
                answer += part
        self.assertEqual(answer[:9], b"\xa7MUSTER\x0d\x00")
        self.assertEqual(answer[13:15], b"\x02\x02", answer)
        self.assertIn(b"version", answer)
        job.start(2)
        job.round(2)
        job.finish()
