# SPDX-License-Identifier: Apache-2.0
"""Tables, goals, rounds and notes of muster-bench: how measured figures are processed."""
import csv
import io
import struct
import tempfile
import unittest
from pathlib import Path

from measure import goals, names, plot
from measure.child import Failed, ForeignMeter, output_of
from measure.collective import Timed, size_name
from measure.notes import members_of, recoveries_of
from measure.report import markdown_of_report, save
from measure.rounds import Rounds, parse_figures
from measure.series import Contestant, Effort, run_column
from measure.recovery import Run, difference
from measure.step_log import Kill, Step, done_by, recovery_ms
from measure.tables import Cell, Report, Table, csv_of, markdown_of, readable


def example():
    table = Table('launch', 'Launch', 'ms', ['1', '2'], foreign=[2, 50])
    table.rows = {'muster': [Cell([1, 3, 2, 2, 2]), Cell([4, 6], failures=1)],
                  'peer': [Cell(missing='not installed'), Cell()]}
    return table


class Tables(unittest.TestCase):
    def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle(self):
        self.assertEqual(Cell([1, 2, 10, 4]).median(), 3)
        self.assertEqual(Cell([5, 1, 9]).median(), 5)
        self.assertIsNone(Cell().median())

    def test_numbers_are_shown_with_three_digits(self):
        for number, text in ((0, '0'), (0.41234, '0.412'), (7.3451, '7.35'), (9.9, '9.90'),
                             (9.996, '10.0'), (315.4, '315'), (9990, '9990'), (153_412, '153k'),
                             (999_600, '1.00M'), (2_684_000, '2.68M')):
            self.assertEqual(readable(number), text)

    def test_a_cell_shows_median_and_range(self):
        self.assertIn('| muster | 2.00 (1.00–3.00) |', markdown_of(example()))

    def test_disturbed_columns_are_starred_few_samples_and_failures_are_counted(self):
        self.assertIn('5.00* (4.00–6.00, n=2, 1 failed)', markdown_of(example()))
        self.assertIn('| *CPU used by others, %* | *2* | *50* |', markdown_of(example()))

    def test_an_absent_peer_keeps_its_row(self):
        self.assertIn('| peer | not installed | – |', markdown_of(example()))

    def test_cells_are_found_by_table_row_and_column(self):
        report = Report([], [example()])
        self.assertEqual(report.cell('launch', 'muster', '2').median(), 5)
        for where in (('launch', 'peer', '1'), ('launch', 'muster', '3'), ('store', 'muster', '1'),
                      ('launch', 'nobody', '1')):
            self.assertIsNone(report.cell(*where).median())

    def test_csv_keeps_every_sample_and_the_reason_of_a_missing_one(self):
        text = csv_of(Report(['a machine'], [example()]))
        self.assertTrue(text.startswith('# a machine\n'))
        rows = list(csv.DictReader(io.StringIO(text.partition('\n')[2])))
        self.assertEqual((rows[0]['samples'], rows[0]['median']), ('1 3 2 2 2', '2'))
        self.assertEqual((rows[2]['row'], rows[2]['missing']), ('peer', 'not installed'))
        self.assertEqual([row['median'] for row in rows if row['unit'] == '%'], ['2', '50'])


class Goals(unittest.TestCase):
    OVER_HYDRA = "2 × true: time over mpiexec.hydra's"

    def judged(self, muster, hydra, text=OVER_HYDRA):
        table = Table('launch', 'Launch', 'ms', ['2'])
        table.rows = {names.MUSTER: [Cell([muster])], names.HYDRA: [Cell([hydra])]}
        return next(one for one in goals.judge(Report([], [table])) if one.text == text)

    def test_a_ratio_of_medians_is_held_against_its_limit(self):
        self.assertEqual(self.judged(2, 8).measured, 0.25)
        self.assertTrue(self.judged(2, 8).met())
        self.assertFalse(self.judged(5, 8).met())

    def test_without_the_peer_nothing_is_measured_and_nothing_is_met(self):
        goal = self.judged(2, 8, "2 × true: time over the bare program's")
        self.assertIsNone(goal.measured)
        self.assertFalse(goal.met())
        self.assertIn('| – | ≤ 3.00 | not measured |', goals.markdown_of([goal]))

    def test_a_lower_bound_is_met_from_above(self):
        self.assertTrue(goals.Goal('', '', '', '', 4, at_most=False, measured=5).met())
        self.assertFalse(goals.Goal('', '', '', '', 4, at_most=False, measured=3).met())

    def test_a_run_of_some_blocks_says_nothing_of_the_others(self):
        self.assertEqual({goal.table for goal in goals.judge(Report([], [example()]))}, {'launch'})

    def test_the_storm_is_judged_by_the_column_that_the_store_block_writes(self):
        table = Table('storm', 'Storm', 'ms', [f'{Effort().storm:,} clients'])
        table.row(names.STORE)[0].samples = [400]
        self.assertEqual([goal.measured for goal in goals.judge(Report([], [table]))], [400])


class InRounds(unittest.TestCase):
    def setUp(self):
        self.table = Table('t', 'T', 'µs', ['x', 'none'])
        self.rounds = Rounds({'a': [{'x': 10}, {'x': 20}, {'x': 10}],
                              'b': [{'x': 30}, {'x': 200}, {'x': 50}],
                              'c': [{'x': 40}, {'x': 100}, {'x': 20}],
                              'lost': [{}, {}, {}]}, {'absent': 'not installed'})

    def samples(self, row):
        return self.table.rows[row][0].samples

    def test_lines_are_a_key_and_a_number_others_are_left_out(self):
        self.assertEqual(parse_figures('f32:4 0.25\nhello\ntwo words here\nbad 1x\ndeath 1.5e3\n'),
                         {'f32:4': 0.25, 'death': 1500})

    def test_a_row_has_one_sample_for_each_round(self):
        self.rounds.fill_row(self.table, 'a', ['x', ''])
        self.assertEqual(self.samples('a'), [10, 20, 10])
        self.assertEqual(self.table.rows['a'][1], Cell())

    def test_a_peer_that_is_absent_and_one_that_failed_keep_their_rows(self):
        for peer in ('absent', 'lost'):
            self.rounds.fill_row(self.table, peer, ['x'])
        self.assertEqual(self.table.rows['absent'][0].missing, 'not installed')
        self.assertEqual(self.table.rows['lost'][0].missing, 'failed')

    def test_ratios_are_made_within_a_round_with_the_better_of_the_others(self):
        self.rounds.fill_ratio(self.table, 'b or c over a', ['b', 'c', 'lost'], 'a', ['x'])
        self.assertEqual(self.samples('b or c over a'), [3, 5, 2])

    def test_ratios_to_another_figure_of_the_same_peer(self):
        self.rounds.by_peer = {'a': [{'x': 4, 'y': 2}]}
        self.rounds.fill_ratio(self.table, 'a', ['a'], 'a', ['x'], other_keys=['y'])
        self.assertEqual(self.samples('a'), [0.5])

    def test_a_round_in_which_the_yardstick_was_slow_is_left_out_for_all(self):
        self.assertEqual(self.rounds.drop_disturbed('a', 'x', 1.5), 1)
        self.rounds.fill_row(self.table, 'b', ['x'])
        self.assertEqual(self.samples('b'), [30, 50])

    def test_without_a_yardstick_nothing_is_left_out(self):
        self.assertEqual(self.rounds.drop_disturbed('absent', 'x', 1.5), 0)
        self.assertEqual(self.rounds.count(), 3)


class Notes(unittest.TestCase):
    def test_recovery_lasts_from_the_crash_to_the_last_start_of_the_next_attempt(self):
        self.assertEqual(recoveries_of('start 0 0 1000000\nstart 0 1 2000000\ncrash 0 0 5000000\n'
                                       'start 1 1 9000000\nstart 1 0 8500000\n', 2), [4.0])

    def test_a_crash_before_all_workers_of_its_attempt_ran_does_not_count(self):
        for notes in ('start 0 0 1\ncrash 0 0 2\nstart 0 1 3\nstart 1 0 4\nstart 1 1 5\n',
                      'start 0 0 1\ncrash 0 0 2\nstart 1 0 4\nstart 1 1 5\n'):
            self.assertEqual(recoveries_of(notes, 2), [])

    def test_a_crash_that_no_complete_attempt_follows_does_not_count(self):
        for notes in ('start 0 0 1\nstart 0 1 1\ncrash 0 0 2\nstart 1 0 3\n',
                      'start 0 0 1\nstart 0 1 1\ncrash 0 0 2\n', ''):
            self.assertEqual(recoveries_of(notes, 2), [])

    def test_members_are_in_the_order_of_their_starts_without_a_half_written_one(self):
        notes = 'member 11 0 300\nmember 12 1 200\nmember 13 2 1'
        self.assertEqual([member.number for member in members_of(notes)], [12, 11])


class InTurn(unittest.TestCase):
    def test_rows_take_turns_and_what_fails_twice_is_not_asked_again(self):
        asked = []

        def measure(name, fails=False):
            asked.append(name)
            if fails:
                raise Failed('for the test')
            return [1.0]

        table = Table('t', 'T', 'ms', ['x'])
        run_column(table, 0, [Contestant('a', True, lambda: measure('a')),
                              Contestant('b', True, lambda: measure('b', fails=True)),
                              Contestant('slow', True, lambda: measure('slow'), slow=True),
                              Contestant('absent', False, lambda: measure('absent'))],
                   Effort(rounds=3, slow_rounds=1, repeats=0))
        self.assertEqual(asked, ['a', 'b', 'slow', 'a', 'b', 'a'])
        self.assertEqual(table.rows['a'][0].samples, [1.0, 1.0, 1.0])
        self.assertEqual((table.rows['b'][0].missing, table.rows['b'][0].failures), ('failed', 2))
        self.assertEqual(table.rows['absent'][0].missing, 'not installed')

    def test_a_program_that_fails_or_hangs_is_no_sample(self):
        with self.assertRaisesRegex(Failed, 'exited with code 3'):
            output_of(['/bin/sh', '-c', 'exit 3'], {})
        with self.assertRaisesRegex(Failed, 'hung for 0.1 s'):
            output_of(['/bin/sh', '-c', 'read never </dev/ptmx'], {}, timeout=0.1)
        self.assertEqual(output_of(['/bin/sh', '-c', 'echo 7'], {}), '7\n')

    def test_what_we_use_is_not_counted_as_others_use(self):
        meter = ForeignMeter()
        begin = meter._ticks()
        sum(range(10_000_000))
        busy, _, own = (end - start for start, end in zip(begin, meter._ticks()))
        self.assertGreater(own, 0)
        self.assertGreaterEqual(busy, own - 2)  # ticks are counted at different times

    def test_what_ranks_are_asked(self):
        self.assertEqual(Timed(4).word(2, False), 'f32:4:50:200')
        self.assertEqual(Timed(4, 'f16').word(4, True), 'f16:4:6:20')
        self.assertEqual(Timed(1 << 30, operation='all_gather').word(2, False),
                         'all_gather:f32:1073741824:1:1')
        self.assertEqual([size_name(size) for size in (4, 1024, 25 << 20, 1 << 30)],
                         ['4 B', '1 KiB', '25 MiB', '1 GiB'])


class Recoveries(unittest.TestCase):
    """Two ranks. Rank 1 is killed after step 8, and both repeat step 8."""
    RANKS = [[Step(7, 10, 1), Step(8, 20, 1), Step(8, 2_000_050, 1), Step(9, 2_000_060, 1)],
             [Step(7, 11, 2), Step(8, 21, 2), Step(8, 3_000_040, 3), Step(9, 3_000_070, 3)]]

    def test_a_recovery_ends_when_the_slowest_rank_has_completed_the_step(self):
        self.assertEqual(recovery_ms(self.RANKS, Kill(1, 2, 40)), 3.0)

    def test_a_record_of_the_dying_process_is_no_recovery(self):
        self.assertIsNone(recovery_ms(self.RANKS, Kill(1, 3, 40)))
        self.assertEqual(recovery_ms(self.RANKS, Kill(1, 2, 20)), 3.00002)

    def test_steps_that_only_one_rank_has_completed_do_not_count(self):
        for time, steps in ((5, 0), (10, 0), (11, 7), (20, 7), (21, 8), (3_000_050, 8),
                            (3_000_070, 9)):
            self.assertEqual(done_by(self.RANKS, time), steps)

    def test_weights_are_compared_in_the_last_common_step(self):
        def run(*weights):
            return Run(0, [], weights={500 * at: struct.pack('2f', *each)
                                       for at, each in enumerate(weights)})
        undisturbed = run((0, 0), (1, -4))
        self.assertEqual(difference(run((9, 9), (1, -4), (5, 5)), undisturbed), 0)
        self.assertEqual(difference(run((0, 0), (2, -4)), undisturbed), 250_000)
        self.assertIsNone(difference(run(), undisturbed))


class Whole(unittest.TestCase):
    def test_a_report_has_its_goals_and_its_tables(self):
        text = markdown_of_report(Report(['a machine'], [example()]))
        self.assertIn('\n- a machine\n', text)
        self.assertIn("| 2 × true: time over mpiexec.hydra's | – |", text)
        self.assertIn('### Launch (ms)\n', text)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            save(Report([], [example(), Table('empty', 'Empty', 'ms', ['x'])]), folder)
            files = {path.name for path in Path(folder).iterdir()}
        pictures = {'launch.svg'} if plot.matplotlib_is_there() else set()
        self.assertEqual(files, {'results.md', 'results.csv'} | pictures)


if __name__ == '__main__':
    unittest.main()
