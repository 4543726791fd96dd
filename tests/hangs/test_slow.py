# SPDX-License-Identifier: Apache-2.0
"""Programs that are slow (slow.py): the launcher must not report them."""
import unittest

import slow
from test_hangs import run


class Slow(unittest.TestCase):
    """One test per program."""


def add_program(function):
    def test(self):
        # Loaded machines are slow, too, so nothing here depends on the time of a poll.
        ended = run(3, [f"--hang-timeout={slow.LIMIT:.0f}", "--on-hang=stop"], "slow.py",
                    function.__name__)
        self.assertEqual(ended.code, 0, str(ended))
        self.assertEqual(ended.verdicts, [], str(ended))
        self.assertNotIn("hang", ended.err)
    setattr(Slow, "test_" + function.__name__, test)


for each in slow.KINDS:
    add_program(each)

if __name__ == "__main__":
    unittest.main()
