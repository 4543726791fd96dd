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
