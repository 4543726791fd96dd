# SPDX-License-Identifier: Apache-2.0
"""--warm: what a module does to its process during its import. Each worker has the effect, as after
a cold start. See test_warm_kinds.py for many small effects, and test_warm_cold.py for effects after
which workers are started cold."""
from warm_case import EffectCase


class Kept(EffectCase):
    def test_the_environment(self):
        self.env.update(CHANGED="1", REMOVED="1")
        lines = self.assert_same(
            """
            os.environ["SET"] = "by import"
            os.environ["CHANGED"] = "by import"
            os.environ.pop("REMOVED", None)
            os.environ.setdefault("DEFAULT", "by import")
            os.environ.setdefault("RANK", "not a rank")
            os.putenv("PUT", "by import")
            """, """
            import os, effect, subprocess
            names = ("SET", "CHANGED", "REMOVED", "DEFAULT")
            print(*[os.environ.get(name) for name in (*names, "RANK")])
            print(*[subprocess.run(["sh", "-c", "echo ${%s-unset}" % name], stdout=-1).stdout
                    for name in (*names, "PUT")])
            """)
        self.assertEqual(lines[2:], [f"by import by import None by import {rank}"
                                     for rank in (0, 1)])

    def test_the_environment_that_python_starts_with(self):
        (self.site / "sitecustomize.py").write_text(
            "import os\nif os.environ.get('EFFECT'): os.environ['BY_SITE'] = '1'\n")
        self.assert_same("pass", "import os, effect\nprint(os.environ.get('BY_SITE'))\n"
                                 "print(os.environ.get('LC_CTYPE'))\n")

    def test_streams_that_are_replaced(self):
        for replaced in ("""
                         import io
                         class Upper(io.TextIOBase):
                             def __init__(self, file): self.file = file
                             def write(self, text): return self.file.write(text.upper())
                         sys.stdout = Upper(sys.stdout)
                         """, """
                         import codecs
                         sys.stdout = codecs.getwriter("utf-16-le")(sys.stdout.buffer)
                         """, """
                         import io
                         sys.stdout = io.TextIOWrapper(sys.stdout.detach(), "utf-16-le",
                                                       write_through=True)
                         """, """
                         sys.stdout.reconfigure(encoding="utf-16-le")
                         """, """
                         sys.stdout = open(os.devnull, "w")
                         """):
            with self.subTest(replaced):
                self.assert_same(replaced, "import effect\nprint('seen')\n")

    def test_streams_that_a_module_keeps(self):
        self.assert_same(
            """
            import logging
            handler = logging.StreamHandler(sys.stdout)
            logging.getLogger().addHandler(handler)
            """, """
            import effect, logging, sys
            logging.warning("logged")
            if hasattr(effect, "handler"):
                print(effect.handler.stream is sys.stdout is sys.__stdout__)
            """)

    def test_the_command_line(self):
        self.assert_same(
            "seen, words = sys.argv, list(sys.argv)\n",
            """
            import effect, os, sys
            if hasattr(effect, "seen"):
                print(effect.seen is sys.argv, effect.words, sys.argv)
            """, "--lr", "0.1")

    def test_the_command_line_that_a_module_changes(self):
        self.assert_same("sys.argv.remove('--for-module')\n",
                         "import effect, sys\nprint(sys.argv)\n", "--for-module", "1")

    def test_the_main_module(self):
        self.assert_same(
            """
            import __main__
            seen = __main__, __main__.__file__
            __main__.by_import = 1
            """, """
            import effect, sys
            if hasattr(effect, "seen"):
                print(effect.seen[0] is sys.modules["__main__"], effect.seen[1] == __file__)
                print(by_import)
            """)

    def test_a_file_that_is_read(self):
        """Each worker has its own file position."""
        (self.folder / "read").write_text("abcdefghi")
        self.env["READ"] = str(self.folder / "read")
        lines = self.assert_same(
            """
            file = open(os.environ["READ"], buffering=0, mode="rb")
            file.read(3)
            """, "import effect\nprint(effect.file.read(3) if hasattr(effect, 'file') else '')\n")
        self.assertEqual(lines, ["b'def'"] * 2)

    def test_an_import_that_fails_in_the_end(self):
        """Whatever it has done before, a worker does it again."""
        self.assert_same("os.environ['COUNTED'] = os.environ.get('COUNTED', '') + '1'\n"
                         "raise ImportError\n",
                         "import os\n"
                         "try:\n"
                         "    import effect\n"
                         "except ImportError:\n"
                         "    pass\n"
                         "print(os.environ.get('COUNTED'))\n")
