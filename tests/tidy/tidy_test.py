#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tidy test: each rule must detect a violation planted in a small tree, and must find
nothing in the same tree without it."""
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import rules  # noqa: E402
import source  # noqa: E402
import tidy  # noqa: E402

REAL_ROOT = Path(__file__).parents[2]
SPDX = '// SPDX-License-Identifier: Apache-2.0\n'
HEADER = SPDX + '// What it is for.\n#pragma once\n'


class Planted(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, rules, 'EXCEPTIONS', rules.EXCEPTIONS)
        rules.EXCEPTIONS = {}
        self.root = Path(tempfile.mkdtemp(prefix='muster-tidy-'))
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ('lib', 'lib/base', 'lib/io', 'lib/plan', 'rendezvous', 'apps', 'tests',
                       'examples', '.'):
            (self.root / folder).mkdir(exist_ok=True)
            (self.root / folder / 'README.md').write_text('# A room\n')
        shutil.copy(REAL_ROOT / 'lib/README.md', self.root / 'lib/README.md')
        self.write('lib/base/a.hpp', HEADER)
        self.write('lib/io/b.hpp', HEADER + '#include "base/a.hpp"\n')

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def expect(self, path, text, *wanted):
        """The planted file violates exactly these rules, and the tree without it violates none."""
        self.assertEqual(tidy.check_tree(self.root), [])
        self.write(path, text)
        found = tidy.check_tree(self.root)
        names = [line.rsplit('[', 1)[1][:-1] for line in found]
        self.assertEqual(sorted(names), sorted(wanted), found)
        self.assertTrue(all(line.startswith(os.path.dirname(path)) for line in found), found)

    def test_an_arrow_against_the_table(self):
        self.expect('lib/base/bad.cpp', SPDX + '#include "io/b.hpp"\n', 'arrow')

    def test_third_party_headers_where_they_do_not_belong(self):
        self.expect('lib/plan/bad.cpp', SPDX + '#include <asio/post.hpp>\n#include <CLI/CLI.hpp>\n'
                    '#include <toml++/toml.h>\n', 'arrow', 'arrow', 'arrow')

    def test_a_header_that_only_one_file_may_include(self):
        self.expect('lib/io/bad.cpp', SPDX + '#include <ares.h>\n', 'arrow')

    def test_includes_that_are_not_written_from_a_root(self):
        self.expect('lib/io/bad.cpp', SPDX + '#include "../base/a.hpp"\n#include "b.hpp"\n',
                    'arrow', 'arrow')

    def test_a_room_without_a_row(self):
        self.expect('lib/attic/bad.cpp', SPDX, 'arrow', 'readme')

    def test_catch_outside_its_header(self):
        self.expect('tests/bad.cpp', SPDX + '#include <catch2/catch.hpp>\n', 'arrow')

    def test_fmt_in_a_header(self):
        self.expect('lib/io/bad.hpp', HEADER + '#include <fmt/core.h>\n', 'arrow')

    def test_banned_words_are_found_in_code_and_not_in_comments(self):
        words = ('throw 1;', 'getenv("A");', 'std::thread t;', 'std::scoped_lock l; std::mutex m;',
                 'std::atomic<int> a;', 'asio::detached', 'steady_clock::now();',
                 'system_clock::now();', '::getaddrinfo(a);', 'std::this_thread::sleep_for(d);',
                 'sleep(1);', 'std::random_device r;', 'std::system("a");')
        harmless = '// throw getenv\nconst char* kText = "std::mutex";\nint ares_getaddrinfo;\n'
        self.expect('lib/io/bad.cpp', SPDX + harmless + '\n'.join(words) + '\n',
                    *['words'] * len(words))

    def test_sleeping_in_a_test(self):
        self.expect('tests/bad.cpp', SPDX + 'void f() { this_thread::sleep_for(1s); }\n', 'words')

    def test_long_functions_many_parameters_and_deep_nesting(self):
        body = '  f();\n' * rules.FUNCTION_LINES_MAX
        deep = 'if (a) {\n' * (rules.NESTING_MAX + 1) + '}\n' * (rules.NESTING_MAX + 1)
        self.expect('lib/io/bad.cpp', SPDX + 'namespace a {\nvoid f() {\n' + body + '}\n'
                    'void g(int a, std::map<int, int> b, int c, int d, int e, int f) {\n}\n'
                    'struct H {\n  int h() const {\n' + deep + '}\n};\n}\n',
                    'function', 'function', 'function')

    def test_long_files_and_headers(self):
        self.expect('lib/io/bad.hpp', HEADER + 'int a;\n' * rules.HEADER_LINES_MAX, 'lines')

    def test_long_lines(self):
        self.expect('lib/io/bad.cpp', SPDX + '// ' + 'a' * rules.LINE_COLUMNS_MAX + '\n', 'columns')

    def test_long_readmes(self):
        self.expect('lib/io/README.md', 'a\n' * (rules.README_LINES_MAX + 1), 'lines')

    def test_files_that_grow_are_warned_of(self):
        before = tidy.check(self.root).warnings
        self.write('lib/io/README.md', 'a\n' * (rules.README_LINES_WARNED + 1))
        self.write('lib/io/long.cpp', SPDX + 'int a;\n' * rules.SOURCE_LINES_WARNED)
        report = tidy.check(self.root)
        self.assertEqual(report.lines, [])
        more = [line for line in report.warnings if line not in before]
        self.assertEqual([line.split(':')[0] for line in more],
                         ['lib/io/README.md', 'lib/io/long.cpp'])
        self.assertEqual(len(report.warnings), len(before) + 2)

    def test_missing_licence_lines(self):
        self.expect('scripts/bad', '#!/bin/sh\necho\n', 'spdx')

    def test_an_exception_holds_and_is_reported_once_it_is_not_needed(self):
        bad = 'lib/io/bad.cpp'
        rules.EXCEPTIONS = {('words', bad): 'for the test'}
        self.write(bad, SPDX + 'void f() { throw 1; }\n')
        self.assertEqual(tidy.check_tree(self.root), [])
        self.write(bad, SPDX)
        self.assertEqual([line.rsplit('[', 1)[1] for line in tidy.check_tree(self.root)],
                         ['exceptions]'])

    def test_headers_without_a_purpose_or_guard(self):
        self.expect('lib/io/bad.hpp', SPDX + 'using namespace std;\n', 'header', 'header', 'header')

    def test_open_tasks_without_a_number(self):
        self.expect('lib/io/bad.cpp', SPDX + '// TO' + 'DO: later\n// TO' + 'DO(#12): good\n',
                    'todo')

    def test_paths_of_one_machine(self):
        self.expect('scripts/bad.sh', '# SPDX-License-Identifier: Apache-2.0\ncd /wo' + 'rk/tree\n',
                    'machine')

    def test_a_worktree_of_git_is_a_tree_as_any(self):
        self.write('.git', 'gitdir: /wo' + 'rk/tree/.git/worktrees/a\n')
        self.expect('lib/io/bad.cpp', SPDX + 'int a; \n', 'blanks')

    def test_blanks_at_line_ends(self):
        self.expect('lib/io/bad.cpp', SPDX + 'int a; \n', 'blanks')

    CMAKE = '# SPDX-License-Identifier: Apache-2.0\n'
    ROOM = CMAKE + 'muster_add_room({0} SOURCES a.cpp DEPENDS {1})\n'

    def test_cmake_is_read_for_lines_licence_and_size(self):
        self.expect('lib/io/CMakeLists.txt', '# ' + 'a' * 100 + '\n' * rules.CMAKE_LINES_MAX + '\n',
                    'columns', 'lines', 'spdx')

    def test_sources_of_a_folder_are_in_order(self):
        self.expect('lib/io/CMakeLists.txt', self.CMAKE + 'muster_add_room(io SOURCES b.cpp # c\n'
                    '          tcp/d.cpp tcp/e.cpp a.cpp shm/c.cpp HEADERS a.hpp)\n', 'sources')

    def test_sources_are_listed(self):
        self.expect('lib/io/CMakeLists.txt', self.CMAKE + 'file(GLOB_RECURSE all *.cpp)\n'
                    'aux_source_directory(. all)\nfile(READ a b)\n', 'sources', 'sources')

    def test_a_room_links_what_it_may_include(self):
        self.write('lib/base/CMakeLists.txt', self.ROOM.format('base', 'fmt::fmt'))
        self.write('lib/plan/CMakeLists.txt', self.ROOM.format('plan', 'muster::base'))
        self.expect('lib/io/CMakeLists.txt',
                    self.ROOM.format('io', 'muster::base PRIVATE_DEPENDS muster::plan'), 'link')

    def test_what_tests_link_is_free(self):
        self.write('lib/base/CMakeLists.txt', self.ROOM.format('base', 'fmt::fmt'))
        self.write('tests/CMakeLists.txt',
                   self.CMAKE + 'muster_add_test(io SOURCES a.cpp DEPENDS muster::base)\n')
        self.assertEqual(tidy.check_tree(self.root), [])

    def test_names_that_were_given_up(self):
        self.expect('lib/io/bad.cpp', SPDX + '// The Err' 'and that is run.\nint life' '_page;\n',
                    'vocabulary', 'vocabulary')

    def test_sleeping_in_python(self):
        text = ('# SPDX-License-Identifier: Apache-2.0\n"""time.sleep(1)"""\nimport time\n'
                'time.sleep(1)  # here\nworker = """\ntime.sleep(9)\n"""\n')
        self.expect('tests/bad.py', text, 'sleep')


class Reading(unittest.TestCase):
    def test_python_is_left_without_strings_and_comments_and_lines_are_kept(self):
        text = 'a = "sleep()"  # sleep()\nb = """x\nsleep()\n""" + c\n'
        code = source.python_code(text)
        self.assertNotIn('sleep', code)
        self.assertEqual((code.count('\n'), code.split('\n')[3].strip()), (4, '+ c'))

    def test_functions_are_measured_as_written(self):
        text = '''
template <class T> auto Foo<T>::bar(const std::map<int, T>& a, int b = f(1, 2)) const -> int {
  const auto inner = [&](int x, int y) { return x; };
  for (;;) {
    if (a) { b(); } else { while (c) { d(); } }
  }
}
Foo::Foo(int a) : a_(a), b_{a} {}
enum class Color { red, green };
constexpr int kTable[] = {1, 2, 3};
'''
        found = {f.name: f for f in source.functions(text)}
        self.assertEqual(found['Foo<T>::bar'].parameters, 2)
        self.assertEqual(found['Foo<T>::bar'].lines, 6)
        self.assertEqual(found['Foo<T>::bar'].nesting, 3)
        self.assertNotIn('inner', found)

    def test_strings_and_comments_are_blanked_and_lines_kept(self):
        text = 'a("x{" /* { */);\n// {\nR"(\n{)" \'{\' 1\'000\n'
        self.assertNotIn('{', source.blank(text))
        self.assertEqual(source.blank(text).count('\n'), text.count('\n'))


if __name__ == '__main__':
    unittest.main()
