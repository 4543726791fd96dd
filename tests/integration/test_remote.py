# SPDX-License-Identifier: Apache-2.0
"""Agents on other machines, started from one shell: --hosts, --hostfile. The remote shell is
fake_rsh.py, and the machines are loopback addresses of this one."""

import os
import pathlib
import select
import signal

from harness import (DEADLINE, MUSTER, JobCase, children, eventually, free_port, is_sanitized, read,
                     state)

RSH = str(pathlib.Path(__file__).with_name("fake_rsh.py"))
WAITED = rb"\A(muster: .*\n)*"  # on stderr, if a slow machine has waited for hosts or nodes


def rsh_of(job, host):
    """The pid of the remote shell to this host."""
    return next(pid for pid in children(job.agent())
                if f"\0{host}\0" in read(f"/proc/{pid}/cmdline"))


class Remote(JobCase):
    def hosts(self, hosts, *words, options=(), env=None, **kwargs):
        """A job on these machines; `words` are its program."""
        return self.job("--hosts", hosts, "--rsh", RSH, *options, *words, env=self.env(env),
                        **kwargs)

    def run_hosts(self, hosts, *words, code=None, **kwargs):
        return self.wait_for_exit(self.hosts(hosts, *words, **kwargs), code)

    def env(self, more=None):
        return {**os.environ, "FAKE_RSH_DIR": str(self.folder), **(more or {})}

    def calls(self):
        return [line.split(" ", 2) for line in read(self.folder / "calls").splitlines()]

    def shell(self, script):
        return ["--no-python", "sh", "-c", script]

    def long_job(self, **how):
        """Two machines whose workers have created the files up0 to up2, and wait."""
        job = self.hosts("127.0.0.1:2,127.0.0.2",
                         *self.shell(f"touch {self.folder}/up$RANK; exec sleep 600"), **how)
        self.wait_for("up0", "up1", "up2")
        return job

    def agents_of(self, job):
        """The remote agents' pids, recognized by their command line."""
        return [pid for pid in job.pids()
                if read(f"/proc/{pid}/cmdline").endswith("\0--remote-agent\0")
                and "python" not in read(f"/proc/{pid}/comm")]

    def two_agents_of(self, job):
        return eventually(lambda: len(found := self.agents_of(job)) == 2 and found, "two agents")

    def test_the_workers_of_all_machines_are_one_world(self):
        ended = self.run_hosts("127.0.0.1:2,me@127.0.0.2:1", *self.shell(
            "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, $FAKE_HOST"))
        self.assertEqual((ended.code, ended.said), (0, ""), ended)
        self.assertEqual(sorted(ended.out.splitlines()), [
            "rank 0 of 3, local 0 of 2, 127.0.0.1", "rank 1 of 3, local 1 of 2, 127.0.0.1",
            "rank 2 of 3, local 0 of 1, 127.0.0.2"])
        self.assertEqual(sorted(call[1] for call in self.calls()), ["127.0.0.1", "me@127.0.0.2"])

    def test_a_host_file_says_the_same(self):
        path = self.folder / "machines"
        path.write_text("# two\n127.0.0.1 slots=2\n\n127.0.0.2:1 # small\n")
        ended = self.run_job("--hostfile", path, "--rsh", RSH,
                             *self.shell("echo $RANK/$WORLD_SIZE"))
        self.assertEqual((ended.code, sorted(ended.out.split())), (0, ["0/3", "1/3", "2/3"]), ended)

    def test_labels_name_the_machine_and_the_rank(self):
        ended = self.run_hosts("127.0.0.1,127.0.0.2", *self.shell("echo out; echo err >&2"),
                               options=["-l"])
        self.assertEqual(sorted(ended.out.splitlines()),
                         ["[127.0.0.1:0]:out", "[127.0.0.2:1]:out"], ended)
        self.assertEqual(sorted(ended.said.splitlines()),
                         ["[127.0.0.1:0]:err", "[127.0.0.2:1]:err"], ended)

    def test_output_and_error_in_one_place_come_in_the_order_in_which_they_were_written(self):
        script = self.python("""
import os
for number in range(0, 2000, 2):
    os.write(2, b"%d\\n" % number)
    os.write(1, b"%d\\n" % (number + 1))
""")
        for hosts, options in (["127.0.0.1"], []), (["127.0.0.1", "127.0.0.2"], ["-l"]):
            file = self.folder / "console"
            with self.subTest(hosts), file.open("wb") as stream:
                ended = self.run_hosts(",".join(hosts), script, options=options, stdout=stream,
                                       stderr=stream)
                self.assertEqual(ended.code, 0, file.read_text())
                for rank, host in enumerate(hosts):
                    prefix = f"[{host}:{rank}]:" if options else ""
                    lines = file.read_text().splitlines()
                    self.assertEqual([line for line in lines if line.startswith(prefix)],
                                     [f"{prefix}{number}" for number in range(2000)])

    def test_a_message_of_all_machines_in_the_same_place_as_output_is_shown_once(self):
        file = self.folder / "console"
        with file.open("wb") as stream:
            ended = self.run_hosts("127.0.0.1,127.0.0.2", *self.shell(
                f"echo muster: mine; touch {self.folder}/up$RANK; [ $RANK = 0 ] && exec sleep 60; "
                f"until [ -e {self.folder}/up0 ]; do sleep 0.01; done; exit 23"), stdout=stream,
                                   stderr=stream)
        shown = file.read_text()
        self.assertEqual(ended.code, 23, shown)
        self.assertEqual(shown.count("rank 1 exited with code 23"), 1, shown)
        self.assertEqual(shown.splitlines().count("muster: mine"), 2, shown)

    def test_lines_are_whole_and_none_is_missing(self):
        script = "i=0; while [ $i -lt 500 ]; do printf '%s' $RANK:$i; echo :$i; i=$((i+1)); done"
        ended = self.run_hosts("127.0.0.1:2,127.0.0.2:2", *self.shell(script), options=["-l"])
        self.assertEqual(ended.code, 0, ended)
        wanted = [f"[127.0.0.{rank // 2 + 1}:{rank}]:{rank}:{i}:{i}"
                  for rank in range(4) for i in range(500)]
        self.assertEqual(sorted(ended.out.splitlines()), sorted(wanted))

    def shown_while_it_runs(self, hosts, text, wanted):
        """The program writes `text`, which does not end a line, to its output, and exits once the
        console has shown what the test expects. The same again with standard error."""
        for stream, seen in ((1, self.folder / "seen1"), (2, self.folder / "seen2")):
            job = self.hosts(hosts, *self.shell(
                f"printf '{text}' >&{stream}; until [ -e {seen} ]; do sleep 0.01; done"))
            (job.stdout_until if stream == 1 else job.stderr_until)(wanted)
            seen.touch()
            self.assertEqual(job.end().code, 0)

    def test_a_progress_bar_of_each_machine_moves_while_it_runs(self):
        self.shown_while_it_runs("127.0.0.1,127.0.0.2", r"\r10%%\r20%%", rb"(?s)10%.*10%")

    def test_dots_of_each_machine_appear_while_it_runs(self):
        self.shown_while_it_runs("127.0.0.1,127.0.0.2", "...", WAITED + rb"\.\.\.\n\.\.\.\Z")

    def test_of_a_single_machine_what_ends_no_line_is_shown_at_once(self):
        self.shown_while_it_runs("127.0.0.2", "...", WAITED + rb"\.\.\.\Z")

    def test_included_machines_and_gpus_alone_take_part(self):
        path = self.folder / "machines"
        path.write_text("".join(f"127.0.0.{n} slots=2\n" for n in (1, 2, 3)))
        job = self.shell("echo $RANK/$WORLD_SIZE $FAKE_HOST ${CUDA_VISIBLE_DEVICES:-all}")
        for choice in ("--include=127.0.0.1@127.0.0.3:1", "--exclude=127.0.0.2@127.0.0.3:0"):
            with self.subTest(choice):
                ended = self.run_job("--hostfile", path, "--rsh", RSH, choice, *job,
                                     env=self.env())
                self.assertEqual((ended.code, sorted(ended.out.splitlines())),
                                 (0, ["0/3 127.0.0.1 all", "1/3 127.0.0.1 all",
                                      "2/3 127.0.0.3 1"]), ended)
        self.assertEqual({call[1] for call in self.calls()}, {"127.0.0.1", "127.0.0.3"})

    def test_arguments_and_folder_arrive_as_they_are(self):
        words = ["a b", "'", '"', "$HOME", "`id`", "*", "", "\\", "x\ny", "ü", ";#&|<>!"]
        folder = self.folder / "with blank '"
        folder.mkdir()
        script = self.python("import os, sys\nprint(repr((os.getcwd(), sys.argv[1:])))\n")
        ended = self.run_hosts("127.0.0.1", script, *words, cwd=folder)
        self.assertEqual(ended.out.strip(), repr((str(folder), words)), ended)

    def test_chosen_variables_travel_and_no_command_line_shows_them(self):
        ended = self.run_hosts(
            "127.0.0.1", *self.shell("echo $NCCL_DEBUG.$FOO.$BAR.$OTHER.$MUSTER_NNODES"),
            options=["-x", "FOO", "-xBAR=b=1,2"],
            env={"NCCL_DEBUG": "WARN", "FOO": "sesame", "OTHER": "x", "MUSTER_MAX_RESTARTS": "2"})
        self.assertEqual((ended.code, ended.out), (0, "WARN.sesame.b=1,2..\n"), ended)
        self.assertNotIn("sesame", read(self.folder / "calls"))

    def test_a_login_script_that_prints_is_passed_over(self):
        ended = self.run_hosts("noisy", *self.shell("echo hello"))
        self.assertEqual((ended.code, ended.out, ended.said), (0, "hello\n", ""), ended)

    def test_the_first_failure_is_the_exit_code_and_is_told_once(self):
        ended = self.run_hosts("127.0.0.1:2,127.0.0.2:2,127.0.0.3", *self.shell(
            "[ $RANK = 3 ] && exit 23; exec sleep 60"), code=23)
        self.assertEqual(ended.err.count("rank 3 exited with code 23"), 1, ended)

    def test_a_restart_is_one_of_all_machines(self):
        ended = self.run_hosts("127.0.0.1,127.0.0.2", *self.shell(
            "echo $RANK.$TORCHELASTIC_RESTART_COUNT; "
            "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit $RANK"), options=["--max-restarts=1"])
        self.assertEqual(ended.code, 0, ended)
        self.assertLessEqual({"0.1", "1.0", "1.1"}, set(ended.out.split()), ended)

    def test_a_machine_that_cannot_be_reached_is_one_line_and_nothing_is_started(self):
        job = self.hosts("127.0.0.1,down7", *self.shell("echo started"),
                         options=["--hosts-timeout=0"])
        ended = job.end()
        self.assertEqual((ended.code, ended.out), (69, ""), ended)
        self.assertEqual(ended.said, f"muster: error: cannot reach down7 with '{RSH} down7': "
                                     "ssh: connect to host down7 port 22: No route to host\n")
        self.assert_nothing_left(job)

    def test_machines_that_are_not_up_yet_are_tried_again(self):
        for options in ([], ["--rsh-fanout=1"]):  # started from here, or by the previous machine
            with self.subTest(options):
                (self.folder / "calls").unlink(missing_ok=True)
                meeting = f"--rdzv-endpoint=127.0.0.1:{free_port()}"
                ended = self.run_hosts("127.0.0.1,later2,127.0.0.3,later1",
                                       *self.shell("echo $RANK of $WORLD_SIZE"),
                                       options=[meeting, *options])
                self.assertEqual((ended.code, ended.said), (0, ""), ended)
                self.assertEqual(sorted(ended.out.splitlines()),
                                 [f"{rank} of 4" for rank in range(4)])
                self.assertEqual(sorted(call[1] for call in self.calls()),
                                 ["127.0.0.1", "127.0.0.3", *["later1"] * 2, *["later2"] * 3])

    def test_this_machine_needs_no_ssh(self):
        ssh = self.folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.symlink_to(RSH)
        env = self.env({"MUSTER_HOSTS": "localhost,127.0.0.2",
                        "PATH": f"{ssh.parent}:{os.environ['PATH']}"})
        ended = self.run_job(*self.shell("echo $RANK of $WORLD_SIZE"), env=env)
        self.assertEqual((ended.code, ended.said), (0, ""), ended)
        self.assertEqual(sorted(ended.out.splitlines()), ["0 of 2", "1 of 2"])
        self.assertEqual([call[1] for call in self.calls()], ["127.0.0.2"])

    def test_a_machine_that_refuses_the_login_is_tried_once(self):
        ended = self.run_hosts("127.0.0.1,me@denied", *self.shell("echo started"))
        self.assertEqual((ended.code, ended.out), (69, ""), ended)
        self.assertRegex(ended.said, r"^muster: error: cannot reach denied .*: Permission denied "
                                     r"\(publickey\)\.\n$")
        self.assertEqual(len(self.calls()), 2)

    def test_without_muster_over_there_it_says_where_it_looked(self):
        ended = self.run_hosts("127.0.0.1", *self.shell("echo started"),
                               options=["--rsh-muster", "/no/such/muster"])
        self.assertEqual((ended.code, ended.out), (69, ""), ended)
        self.assertRegex(ended.said, r"^muster: error: 127\.0\.0\.1: cannot start muster there "
                                     r"\(.*/no/such/muster: not found\).*--rsh-muster=PATH.*\n$")

    def test_a_remote_shell_that_does_not_exist_is_told(self):
        ended = self.run_job("--hosts", "a", "--rsh", "/no/rsh", "/bin/true", code=69)
        self.assertRegex(ended.said, r"^muster: error: --rsh: .*/no/rsh.*\n$")

    def test_a_folder_that_is_not_there_is_told_by_the_machine(self):
        gone = self.folder / "gone"
        gone.mkdir()
        rsh = self.executable(f"#!/bin/sh\nrmdir '{gone}'\nexec /bin/sh -c \"$2\"\n", "rsh")
        ended = self.run_job("--hosts", "a", "--rsh", rsh, "/bin/true", cwd=gone)
        self.assertEqual((ended.code, ended.out), (70, ""), ended)
        self.assertEqual(ended.said, f"muster: error: a: cannot change to {gone}: "
                                     "No such file or directory\n")

    def test_ctrl_c_ends_the_wait_for_a_machine_that_does_not_answer(self):
        job = self.hosts("127.0.0.1,silent", "/bin/true")
        eventually(lambda: len(self.calls()) == 2, "both remote shells run")
        job.kill(signal.SIGINT)
        ended = job.end()
        self.assertEqual((ended.code, ended.out, ended.said), (128 + signal.SIGINT, "", ""), ended)
        self.assert_nothing_left(job)

    def test_settings_that_cannot_go_together_are_refused(self):
        for args, said in ((["--hosts", "a", "--hostfile", "b"], "use only one of them"),
                           (["--hosts", "a:0"], "number of workers"),
                           (["--hosts", "-oProxyCommand=x"], "needs a value"),
                           (["--hosts=-oProxyCommand=x"], "not a host name"),
                           (["--hosts", "a,b", "--nnodes=3"], "--hosts lists 2"),
                           (["--hosts", "a", "--standalone"], "starts a single-node job"),
                           (["--hosts", "a", "--node-rank=1"], "is set by the order of --hosts"),
                           (["--hosts", "a:4", "--nproc-per-node=2"], "a has 4 slots"),
                           (["--hosts", "a", "-x", "NO_SUCH_VARIABLE"], "is not set here"),
                           (["--hosts", "a", "--rsh", "ssh 'x"], "unclosed quote"),
                           (["--hostfile", "/no/file"], "No such file")):
            ended = self.run_job(*args, "/bin/true")
            self.assertEqual((ended.code, ended.out, ended.err.count("\n")), (2, "", 1), ended)
            self.assertIn(said, ended.err)

    def test_ctrl_c_and_term_reach_the_workers_of_all_machines(self):
        for signo in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signo):
                for path in self.folder.glob("up*"):
                    path.unlink()
                job = self.long_job()
                job.kill(signo)
                ended = self.wait_for_exit(job, 128 + signo)
                self.assertRegex(ended.said, rf"^muster: interrupted by {signo.name}.*\n$")
                self.assert_nothing_left(job)

    def test_ctrl_z_stops_the_workers_of_all_machines_and_fg_continues_them(self):
        script = f"echo $$ >{self.folder}/pid; mv {self.folder}/pid {self.folder}/up$RANK; "
        job = self.hosts("127.0.0.1,127.0.0.2,127.0.0.3", *self.shell(
            script.replace("/pid", "/pid$RANK") + "exec sleep 600"), options=["--rsh-fanout=1"])
        self.wait_for("up0", "up1", "up2")
        workers = [int((self.folder / f"up{rank}").read_text()) for rank in range(3)]

        def all_are(*states):
            return all(state(pid) in states for pid in [*workers, job.process.pid])

        job.kill(signal.SIGTSTP)
        eventually(lambda: all_are("T"), "the launcher and the workers are stopped")
        job.kill(signal.SIGCONT)
        eventually(lambda: all_are("S", "R"), "they run again")
        job.kill(signal.SIGTSTP)
        eventually(lambda: all_are("T"), "they are stopped again")
        job.kill(signal.SIGTERM)  # like a shell's "kill %1"
        job.kill(signal.SIGCONT)
        self.assertEqual(job.end().code, 128 + signal.SIGTERM)
        self.assert_nothing_left(job)

    def test_a_console_that_nobody_reads_does_not_hold_the_end(self):
        job = self.hosts("127.0.0.1,127.0.0.2",
                         *self.shell(f"touch {self.folder}/up$RANK; exec yes"))
        self.wait_for("up0", "up1")
        job.kill(signal.SIGTERM)
        self.assertEqual(job.process.wait(60), 128 + signal.SIGTERM)
        self.assert_nothing_left(job)

    def test_a_console_that_nobody_reads_does_not_hold_a_job_whose_workers_are_gone(self):
        job = self.hosts("127.0.0.1,127.0.0.2", *self.shell("yes | head -c 400000"))
        self.assertEqual(job.process.wait(60), 0)
        self.assert_nothing_left(job)

    def test_a_console_that_is_read_late_gets_everything(self):
        job = self.hosts("127.0.0.1,127.0.0.2", *self.shell(
            f"yes $RANK$RANK$RANK | head -c 4000000; "
            f"until [ -e {self.folder}/seen ]; do sleep 0.01; done"))
        out = bytearray()
        while len(out) < 8000000:
            self.assertTrue(select.select([job.process.stdout], [], [], DEADLINE)[0], len(out))
            out += os.read(job.process.stdout.fileno(), 1 << 20)
        self.assertEqual(sorted(set(bytes(out).split())), [b"000", b"111"])
        (self.folder / "seen").touch()
        self.assertEqual(job.end().code, 0)

    def test_a_second_ctrl_c_does_not_wait_for_a_remote_shell_that_hangs(self):
        job = self.long_job(options=["--shutdown-timeout=3600"])
        agents = self.two_agents_of(job)
        os.kill(rsh_of(job, "127.0.0.2"), signal.SIGSTOP)
        job.kill(signal.SIGINT)
        eventually(lambda: len(self.agents_of(job)) < len(agents), "one machine has ended")
        job.kill(signal.SIGINT)
        self.assertEqual(job.end().code, 128 + signal.SIGINT)
        self.assert_nothing_left(job)

    def test_user_signals_are_passed_on_and_end_nothing(self):
        script = (f"trap 'touch {self.folder}/got$RANK; exit 0' USR1; touch {self.folder}/up$RANK; "
                  "while :; do sleep 0.05; done")
        job = self.hosts("127.0.0.1,127.0.0.2", *self.shell(script))
        self.wait_for("up0", "up1")
        job.kill(signal.SIGUSR1)
        self.wait_for("got0", "got1")
        self.assertEqual(job.end().code, 0)

    def test_after_a_kill_of_the_launcher_nothing_is_left_anywhere(self):
        job = self.long_job()
        self.kill_launcher(job)

    def test_after_a_kill_of_its_second_process_nothing_is_left_anywhere(self):
        job = self.long_job()
        os.kill(job.agent(), signal.SIGKILL)
        self.wait_for_exit(job, 128 + signal.SIGKILL)
        self.assert_nothing_left(job)

    def test_a_remote_shell_that_is_killed_ends_the_job(self):
        job = self.long_job()
        os.kill(rsh_of(job, "127.0.0.2"), signal.SIGKILL)
        ended = self.wait_for_exit(job, 69)
        self.assertIn("127.0.0.2: the connection broke", ended.err)
        self.assertNotIn("interrupted", ended.err)
        self.assert_nothing_left(job)

    def test_a_remote_agent_that_is_killed_ends_the_job(self):
        job = self.long_job()
        os.kill(self.two_agents_of(job)[1], signal.SIGKILL)
        ended = self.wait_for_exit(job, 69)
        self.assertIn(": the connection broke", ended.err)
        self.assert_nothing_left(job)

    def test_an_elastic_job_goes_on_without_a_machine(self):
        script = (f"echo $WORLD_SIZE; touch {self.folder}/up$RANK.$WORLD_SIZE; "
                  f"[ $WORLD_SIZE = 2 ] && exit 0; exec sleep 600")
        job = self.hosts("127.0.0.1,127.0.0.2,127.0.0.3", *self.shell(script),
                         options=["--nnodes=2:3"])
        self.wait_for("up0.3", "up1.3", "up2.3")
        os.kill(rsh_of(job, "127.0.0.3"), signal.SIGKILL)
        ended = self.wait_for_exit(job, 0)
        self.assertIn("muster: warning: 127.0.0.3: the connection broke", ended.err)
        self.assert_nothing_left(job)

    def test_the_plan_is_explained_and_nothing_is_started(self):
        ended = self.run_hosts("a:4,b:2", "train.py", "--lr=0.1 ", options=["--explain"])
        self.assertEqual((ended.code, ended.said), (0, ""), ended)
        self.assertIn(f"\nhost 1: b\n  {RSH} b 'exec {MUSTER} --remote-agent'\n", ended.out)
        self.assertIn("--nproc-per-node=2 ", ended.out)
        self.assertIn(" -- train.py '--lr=0.1 '\n", ended.out)
        self.assertEqual(self.calls(), [])


class Many(JobCase):
    def test_a_machine_further_down_that_cannot_be_reached_is_one_line(self):
        job = self.job("--hosts", "a,b,down1,c,d,e", "--rsh", RSH, "--rsh-fanout=1",
                       "--hosts-timeout=0", "/bin/true",
                       env={**os.environ, "FAKE_RSH_DIR": str(self.folder)})
        ended = job.end()
        self.assertEqual((ended.code, ended.out), (69, ""), ended)
        self.assertEqual(ended.said, f"muster: error: cannot reach down1 with '{RSH} down1': "
                                     "ssh: connect to host down1 port 22: No route to host; "
                                     "dependent hosts: 3 (from b)\n")
        self.assert_nothing_left(job)

    def test_hundreds_of_machines_are_started_as_a_tree(self):
        machines = 64 if is_sanitized() else 256
        rsh = self.executable(f"#!/bin/sh\necho $PPID $1 >>'{self.folder}/calls'\ncd /\n"
                              "exec /bin/sh -c \"$2\"\n", "rsh")
        hosts = ",".join(f"127.0.{n // 64 + 1}.{n % 64 + 1}" for n in range(machines))
        # With this many agents on a few CPUs, each may have to wait longer than a lease.
        job = self.job("--hosts", hosts, "--rsh", rsh, "--rdzv-conf=lease=300", "--no-python", "sh",
                       "-c", "echo $RANK $WORLD_SIZE")
        ended = job.end(240)
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(sorted(ended.out.splitlines()),
                         sorted(f"{rank} {machines}" for rank in range(machines)))
        calls = [line.split() for line in read(self.folder / "calls").splitlines()]
        self.assertEqual(len(calls), machines)
        parents = {}
        for parent, _ in calls:
            parents[parent] = parents.get(parent, 0) + 1
        self.assertEqual(max(parents.values()), 32)
        self.assertEqual(len(parents), 33)
        self.assert_nothing_left(job)
