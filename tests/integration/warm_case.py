# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of --warm: a module whose imports are counted, and jobs that import
it."""
import os
import textwrap

from harness import JobCase, children, read

COLD = "workers are started cold: "

# A module that counts how often it is imported.
COUNTED = """
import os
with open(os.environ["COUNT"], "a") as file:
    file.write("{version} %d\\n" % os.getpid())
version = "{version}"
"""


class WarmCase(JobCase):
    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        self.site.mkdir()
        self.count = self.folder / "count"
        self.env = {**os.environ, "PYTHONPATH": str(self.site), "COUNT": str(self.count),
                    "XDG_CACHE_HOME": str(self.folder / "cache")}

    def module(self, name, text):
        path = self.site / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        return path

    def counted(self, version="1"):
        self.module("counted", COUNTED.format(version=version))

    def cyclic(self, text):
        """A module with this text, in which `Node` says when a cycle of objects is collected."""
        self.module("cyclic", "import os\n"
                              "class Node:\n"
                              "    def __init__(self):\n"
                              "        self.itself = self\n"
                              "    def __del__(self):\n"
                              "        os.write(1, b'collected\\n')\n" + text)

    def imports(self):
        """The processes that have imported the counted module: (version, pid)."""
        return [tuple(line.split()) for line in read(self.count).splitlines()]

    def warm(self, text, *options, nproc=2, modules="counted", **kwargs):
        script = self.python(textwrap.dedent(text))
        return self.run_job(f"--warm={modules}", "--nproc-per-node", nproc, *options, script,
                            env=self.env, **kwargs)

    def zygote(self, job):
        return next(pid for pid in children(job.agent())
                    if read(f"/proc/{pid}/cmdline").startswith("muster-zygote"))


class EffectCase(WarmCase):
    def effect(self, text):
        """The module `effect`, which does this if $EFFECT is set."""
        body = textwrap.indent(textwrap.dedent(text), "    ")
        self.module("effect", f"import os, sys\nif os.environ.get('EFFECT'):\n{body}")

    def run_both(self, program, *args, options=(), nproc=2):
        """Cold, warm, and warm without the effect, as (code, lines, stderr)."""
        script = self.python(textwrap.dedent(program))
        ended = []
        for warm, effect in (((), "1"), (("--warm",), "1"), (("--warm",), "")):
            ended.append(self.run_job(*warm, "--nproc-per-node", nproc, *options, script, *args,
                                      env={**self.env, "EFFECT": effect}))
        return ended

    def assert_same(self, effect, program, *args, why="", **kwargs):
        """Cold and warm workers print the same lines, which differ from those without the effect.
        With `why`, all workers are cold for this reason. Returns the lines."""
        self.effect(effect)
        cold, warm, without = self.run_both(program, *args, **kwargs)
        shown = f"\ncold {cold}\nwarm {warm}\nwithout {without}"
        self.assertEqual((cold.code, sorted(cold.out.splitlines())),
                         (warm.code, sorted(warm.out.splitlines())), shown)
        self.assertNotEqual(sorted(without.out.splitlines()), sorted(warm.out.splitlines()), shown)
        self.assertNotIn(COLD, without.err)
        if why:
            self.assertEqual(warm.err.count(COLD), 1, warm)
            self.assertIn(f"importing effect {why}", warm.err)
        else:
            self.assertNotIn(COLD, warm.err)
        return sorted(warm.out.splitlines())

    def assert_kinds(self, modules, kinds):
        """The same for the effects of several kinds at once. `kinds`: for each name, what the
        module does, and what the program evaluates. `modules`: what both import."""
        effects = "\n".join(effect for effect, _ in kinds.values())
        self.effect(f"import {modules}\n{effects}\n")
        shown = [f"print({name + ':'!r}, {value})\n" for name, (_, value) in kinds.items()]
        cold, warm, without = self.run_both(f"import os, sys, effect, {modules}\n{''.join(shown)}")
        for ended in (cold, warm, without):
            self.assertEqual((ended.code, ended.err), (0, ""), ended)
        for name in kinds:
            with self.subTest(name):
                lines = [sorted(line for line in ended.out.splitlines()
                                if line.startswith(f"{name}: ")) for ended in (cold, warm, without)]
                self.assertEqual(lines[0], lines[1])
                self.assertNotEqual(lines[1], lines[2])
