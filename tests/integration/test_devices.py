# SPDX-License-Identifier: Apache-2.0
"""--numa-binding, --devices and OMP_NUM_THREADS: the kernel reports for the workers what --explain
has printed before."""
import ctypes
import os
import pathlib
import platform
import re
import subprocess
import unittest

from harness import MUSTER, JobCase, environment_without

# A worker that prints its CPUs, the policy of its first mapping, and its threads.
TELL = ("grep -m1 Cpus_allowed_list: /proc/$$/status; head -1 /proc/$$/numa_maps; "
        "echo threads=$OMP_NUM_THREADS")
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_INTERLEAVE = 3
POLICIES = ("node", "socket", "exclusive", "core-complex")


def numbers(text):
    """Parses the kernel's list format: "0-3,8"."""
    ends = [[int(end) for end in part.split("-")] for part in text.split(",") if part]
    return {number for part in ends for number in range(part[0], part[-1] + 1)}


def cores():
    """The physical cores that we may use."""
    folder = pathlib.Path("/sys/devices/system/cpu")
    files = (folder / f"cpu{cpu}/topology/thread_siblings_list" for cpu in os.sched_getaffinity(0))
    return {file.read_text() for file in files}


class Binding(JobCase):
    def setUp(self):
        super().setUp()
        self.env = environment_without("OMP_NUM_THREADS")

    def explained(self, *options, **kwargs):
        """CPUs and memory nodes of each local rank, according to --explain."""
        ended = self.run_job("--explain", *options, "/bin/true", env=self.env, **kwargs, code=0)
        lines = re.findall(r"^local rank (\d+) +cpus (\S+) +(?:memory of node (\S+))?", ended.out,
                           re.M)
        return {int(rank): (numbers(cpus), numbers(memory)) for rank, cpus, memory in lines}

    def told(self, *options, script=None, **kwargs):
        """CPUs, memory nodes and threads of each local rank, according to the kernel and the
        worker."""
        program = [script] if script else ["--no-python", "sh", "-c", TELL]
        self.run_job("--log-dir", self.folder / "logs", "--redirects=3", *options, *program,
                     env=self.env, **kwargs, code=0)
        found = {}
        for file in (self.folder / "logs").glob("*/attempt_0/*/stdout.log"):
            text = file.read_text()
            policy = re.search(r"^\w+ prefer(?: \(many\))?[:=](\S+)", text, re.M)
            found[int(file.parent.name)] = (
                numbers(re.search(r"Cpus_allowed_list:\s*(\S+)", text)[1]),
                numbers(policy[1]) if policy else set(),
                re.search(r"threads=(\d*)", text)[1])
        return found

    def check_all(self, options, **kwargs):
        """Returns the threads of each local rank."""
        want = self.explained(*options, **kwargs)
        got = self.told(*options, **kwargs)
        self.assertTrue(want)
        self.assertEqual({rank: told[:2] for rank, told in got.items()}, want)
        return {rank: int(told[2]) for rank, told in got.items()}

    def test_workers_have_the_explained_masks_and_memory(self):
        workers = min(2, len(cores()))
        for policy in POLICIES:
            with self.subTest(policy=policy):
                self.check_all((f"--numa-binding={policy}", "--nproc-per-node", workers))
                for file in (self.folder / "logs").iterdir():
                    file.rename(self.folder / f"{policy}-{file.name}")

    def test_exclusive_masks_are_apart_and_the_threads_are_those_of_the_mask(self):
        workers = len(cores())
        if workers < 2:
            self.skipTest("needs two cores")
        options = ("--numa-binding=exclusive", "--nproc-per-node", workers)
        threads = self.check_all(options)
        masks = [mask for mask, _ in self.explained(*options).values()]
        self.assertEqual(set.union(*masks), os.sched_getaffinity(0))
        self.assertEqual(sum(len(mask) for mask in masks), len(os.sched_getaffinity(0)))
        for rank, (mask, _) in self.explained(*options).items():
            self.assertLessEqual(threads[rank], len(mask))  # a cgroup's quota may allow fewer
            self.assertGreaterEqual(threads[rank], 1)

    def test_a_binding_never_leaves_the_affinity_mask(self):
        last = max(os.sched_getaffinity(0))
        for policy in POLICIES:
            got = self.explained(f"--numa-binding={policy}",
                                 preexec_fn=lambda: os.sched_setaffinity(0, {last}))
            self.assertEqual(got[0][0], {last}, policy)
        self.check_all(("--numa-binding=node",),
                       preexec_fn=lambda: os.sched_setaffinity(0, {last}))

    def test_warm_workers_are_bound_as_cold_ones(self):
        script = self.python("""
import os, sys
for line in open("/proc/self/status"):
    if line.startswith("Cpus_allowed_list"):
        print(line)
print(open("/proc/self/numa_maps").readline())
print("threads=" + os.environ["OMP_NUM_THREADS"], "json" in sys.modules, os.getppid())
""")
        workers = min(2, len(cores()))
        self.env["OMP_NUM_THREADS"] = "1"
        options = ("--numa-binding=exclusive", "--nproc-per-node", workers)
        want = self.explained(*options)
        got = self.told("--warm=json", *options, script=script)
        self.assertEqual({rank: told[:2] for rank, told in got.items()}, want)
        texts = [file.read_text() for file in (self.folder / "logs").glob("*/*/*/stdout.log")]
        self.assertEqual(len(texts), workers)
        for text in texts:  # they are forked, because nothing in the script imports json
            self.assertIn("threads=1 True", text)

    def test_without_the_option_nothing_is_bound(self):
        self.assertEqual(self.explained("--nproc-per-node=2"), {})
        for mask, memory, _ in self.told("--nproc-per-node=2").values():
            self.assertEqual((mask, memory), (os.sched_getaffinity(0), set()))

    def test_a_memory_policy_that_is_there_already_stays(self):
        def interleave():
            nodes = ctypes.c_ulong(1)
            if ctypes.CDLL(None).syscall(SET_MEMPOLICY[platform.machine()], MPOL_INTERLEAVE,
                                         ctypes.byref(nodes), 65):
                raise OSError("set_mempolicy")
        try:
            subprocess.run(["true"], preexec_fn=interleave, check=True)
        except (KeyError, subprocess.SubprocessError):
            self.skipTest("this kernel or container allows no set_mempolicy")
        self.assertEqual(self.explained("--numa-binding=node", preexec_fn=interleave)[0][1], set())
        ended = self.run_job("--numa-binding=node", "head", "-1", "/proc/self/numa_maps",
                             preexec_fn=interleave)
        self.assertRegex(ended.out, r"^\w+ interleave[:=]0 ")

    def test_auto_says_why_it_binds_nothing(self):
        ended = self.run_job("--explain", "--numa-binding=auto", "/bin/true")
        line = re.search(r"^numa-binding +(.*)$", ended.out, re.M)[1]
        bound = re.search(r"^local rank 0 ", ended.out, re.M)
        self.assertRegex(line, r"^auto \((by|spread) " if bound else r"^auto \(none: ")

    def test_more_workers_than_cores_cannot_be_exclusive(self):
        many = len(cores()) + 1
        ended = self.run_job("--numa-binding=exclusive", "--nproc-per-node", many, "/bin/true")
        self.assertEqual((ended.code, ended.out), (2, ""), ended)
        self.assertRegex(ended.err, r"^muster: --numa-binding=exclusive: \d+ workers belong to "
                                    r"NUMA node \d+, which has only \d+ usable physical cores")

    def test_threads_as_torchrun_counts_them(self):
        name = self.folder / "torchrun"
        name.symlink_to(MUSTER)
        for workers, want in (("2", "threads=1\nthreads=1\n"), ("1", "threads=\n")):
            done = subprocess.run([name, "--nproc_per_node", workers, "--no-python", "sh", "-c",
                                   "echo threads=$OMP_NUM_THREADS"],
                                  env=self.env, capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout, want)


class Devices(JobCase):
    SEEN = 'echo "$LOCAL_RANK:$CUDA_VISIBLE_DEVICES:$HIP_VISIBLE_DEVICES"'

    def seen(self, *options, **variables):
        env = {name: value for name, value in os.environ.items()
               if not name.endswith("_VISIBLE_DEVICES")}
        ended = self.run_job(*options, "--no-python", "sh", "-c", self.SEEN,
                             env={**env, **variables})
        return ended if ended.code else sorted(ended.out.split())

    def test_the_list_counts_the_workers_and_is_what_they_see(self):
        self.assertEqual(self.seen("--devices=4,GPU-ab,7", "--nproc-per-node=gpu",
                                   CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7"),
                         [f"{rank}:4,GPU-ab,7:" for rank in range(3)])

    def test_numbers_choose_from_what_is_visible_already(self):
        self.assertEqual(self.seen("--devices=2,0", "--nproc-per-node=auto",
                                   CUDA_VISIBLE_DEVICES="5, GPU-x ,MIG-y"),
                         ["0:MIG-y,5:", "1:MIG-y,5:"])
        self.assertEqual(self.seen("--devices=1", HIP_VISIBLE_DEVICES="6,7"), ["0:7:7"])

    def test_one_device_for_each_worker(self):
        self.assertEqual(self.seen("--devices=2,0", "--nproc-per-node=gpu", "--virtual-local-rank",
                                   CUDA_VISIBLE_DEVICES="5,6,7"), ["0:5:", "0:7:"])

    def test_what_is_no_device_is_refused_in_one_line(self):
        for typed in ("3", "-1", "a", "0,0", "0,", "GPU-x;y"):
            ended = self.seen(f"--devices={typed}", CUDA_VISIBLE_DEVICES="5,6,7")
            self.assertEqual((ended.code, ended.err.count("\n")), (2, 1), ended)
            self.assertIn("--devices=", ended.err)


# A machine with one GPU that has two slices: its /dev, and /proc/driver from the folder $1.
CUT = ["unshare", "--mount", "sh", "-c",
       'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && touch /dev/nvidia0 && '
       'mount --bind "$1" /proc/driver && shift && exec "$@"', "sh"]


def allowed(*prefix):
    return not subprocess.run([*prefix, "/proc/driver", "true"], capture_output=True,
                              check=False).returncode


@unittest.skipUnless(allowed(*CUT), "needs root and mount namespaces")
class Slices(JobCase):
    LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-48aeb943)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736)
  MIG 3g.20gb     Device  1: (UUID: MIG-a28ad590)
"""

    def setUp(self):
        super().setUp()
        for slice_ in ("gi1/ci0", "gi2/ci0"):
            folder = self.folder / "driver/nvidia/capabilities/gpu0/mig" / slice_
            folder.mkdir(parents=True)
            (folder / "access").write_text("DeviceFileMinor: 12\n")

    def started(self, *options, smi="cat list"):
        """With an nvidia-smi that runs this command and records that it was called."""
        (self.folder / "list").write_text(self.LISTED)
        self.executable(f"#!/bin/sh\ncd {self.folder} && echo \"$@\" >>asked && {smi}\n",
                        "nvidia-smi")
        env = {name: value for name, value in os.environ.items() if not name.endswith("_DEVICES")}
        env["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        return self.run_job(*options, "--no-python", "sh", "-c",
                            'echo "$LOCAL_RANK:$CUDA_VISIBLE_DEVICES"', env=env,
                            prefix=[*CUT, str(self.folder / "driver")])

    def test_each_worker_gets_a_slice_of_its_own(self):
        ended = self.started("--virtual-local-rank", "--nproc-per-node=gpu")
        self.assertEqual((ended.code, sorted(ended.out.split())),
                         (0, ["0:MIG-a28ad590", "0:MIG-c7384736"]), ended)
        self.assertEqual((self.folder / "asked").read_text().split(), ["-L"])

    def test_without_names_it_says_what_to_give(self):
        for smi in ("exit 9", "echo no devices were found", "exec yes"):
            ended = self.started("--virtual-local-rank", "--nproc-per-node=2", smi=smi)
            self.assertEqual((ended.code, ended.out, ended.err.count("\n")), (2, "", 1), ended)
            self.assertIn("2 MIG slices", ended.err)
            self.assertIn("--devices=MIG-", ended.err)

    def test_whoever_wants_no_names_asks_nobody(self):
        ended = self.started("--nproc-per-node=gpu")
        self.assertEqual((ended.code, ended.out), (0, "0:\n"), ended)
        ended = self.started("--virtual-local-rank", "--nproc-per-node=2", "--devices=MIG-x,MIG-y")
        self.assertEqual(sorted(ended.out.split()), ["0:MIG-x", "0:MIG-y"], ended)
        self.assertFalse((self.folder / "asked").exists())
