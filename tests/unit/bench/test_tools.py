# SPDX-License-Identifier: Apache-2.0
"""The tools of muster-bench print figures that the blocks can read. Runs each tool briefly."""
import os
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from measure.child import Failed, family_of, tool
from measure.insight import (feed_table, progress_table, ratios_table, scrapes_table,
                             steps_table, trees_table)
from measure.launch import launch_table, measure_pump, measure_restart
from measure.nodes import RECOVERIES, form, recover
from measure.series import Effort
from measure.store import idle_connections, rate, ask, running_servers

SHORT = Effort(rounds=1, slow_rounds=1, repeats=0, seconds=0.02, storm=50, flood_mib=0.125,
               watched=0.2, deaths=2)
ABSENT = ('hydra', 'open_mpi', 'torchrun', 'ft_launcher', 'redis', 'torch_python')


def peers():
    """Only programs from this build; the other launchers and servers are not installed."""
    return SimpleNamespace(
        environ=dict(os.environ), tools=os.environ['MUSTER_BENCH'],
        insight=os.environ['BENCH_INSIGHT'], floor=os.environ['BENCH_FLOOR'],
        muster=os.environ['MUSTER_BIN'],
        muster_store=os.environ['STORE_PROGRAM'], tee='/usr/bin/tee', cat='/bin/cat',
        **dict.fromkeys(ABSENT, ''))


class Families(unittest.TestCase):
    def test_a_process_that_ends_while_its_children_are_listed(self):
        with mock.patch.object(Path, 'glob', side_effect=FileNotFoundError):
            self.assertEqual(family_of(1), [1])


class Tools(unittest.TestCase):
    def test_time_of_one_of_several_and_of_one_that_fails(self):
        one = tool(peers(), 'time', '--repeat', 3, '--', 'true')
        self.assertEqual(len(one['ms']), 3)
        # Both run at the same time: neither exits before the other has started.
        tool(peers(), 'time', '--', 'true', ':::', 'sh', '-c', 'exit 0')
        with self.assertRaises(Failed):
            tool(peers(), 'time', '--', 'true', ':::', 'false')

    def test_drained_lines_are_counted(self):
        done = tool(peers(), 'time', '--drain', '--', 'seq', '10000')
        self.assertEqual(done['lines'], 10000)

    def test_a_program_that_hangs_is_killed(self):
        with self.assertRaises(Failed):
            tool(peers(), 'time', '--timeout', 1, '--', 'cat', '/dev/ptmx')

    def test_store_figures(self):
        with running_servers(peers()) as servers:
            for server in (each for each in servers if each.program):
                with self.subTest(server=server.name):
                    self.assertGreater(rate(peers(), server, SHORT, '--clients', 2), 0)
                    self.assertGreater(ask(peers(), server, 'storm', '--clients', 20)['whole_ms'],
                                       0)
                    with idle_connections(peers(), server, 20):
                        pass
            store = servers[0]
            self.assertGreater(ask(peers(), store, 'stream', '--clients', 2, '--requests', 1000)
                               ['rate'], 0)

    def test_crowd(self):
        for sealed in ([], ['--sealed']):
            self.look_at_crowd(tool(peers(), 'crowd', '--nodes', 20, *sealed))

    def look_at_crowd(self, figures):
        self.assertGreaterEqual(figures['started_ms'], figures['joined_ms'])
        self.assertGreater(figures['messages_per_node'], 0)


class Blocks(unittest.TestCase):
    def test_launch_has_a_row_for_each_launcher(self):
        table = launch_table(peers(), SHORT)
        self.assertEqual(len(table.rows), 6)
        for name in ('muster', 'bare vfork + exec + wait'):
            self.assertTrue(all(cell.samples for cell in table.rows[name]), name)
        self.assertEqual(table.rows['torchrun 2.15'][0].missing, 'not installed')

    def test_restart_and_pump(self):
        for measure in (measure_restart, measure_pump):
            table, = measure(peers(), SHORT)
            self.assertTrue(table.rows['muster'][0].samples, table.title)

    def test_nodes(self):
        self.assertGreater(form(peers(), peers().muster, 2)[0], 0)
        for recovery in RECOVERIES:
            with self.subTest(recovery.title):
                self.assertGreater(recover(peers(), peers().muster, recovery)[0], 0)

    def test_insight(self):
        steps = steps_table(peers(), SHORT)
        for table in (steps, ratios_table(steps), *(
                make(peers(), SHORT) for make in (scrapes_table, progress_table, feed_table,
                                                  trees_table))):
            for name, cells in table.rows.items():
                for column, cell in zip(table.columns, cells):
                    self.assertTrue(cell.samples, (table.title, name, column))


if __name__ == '__main__':
    unittest.main()
