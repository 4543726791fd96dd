#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules as a test: reads the tree, prints each violation on one line with the file, the
line and the rule, and exits 1 if there is one. Usage: tidy.py [ROOT]."""
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import cmake  # noqa: E402
import rules  # noqa: E402
import source  # noqa: E402

FOLDERS = ('apps', 'lib', 'rendezvous', 'tests', 'scripts', 'examples', 'docs', '.ci')
# Generated files.
SKIPPED = {'build', '__pycache__', '.cache', 'corpus', 'captures', 'results'}
CPP_ENDINGS = ('.cpp', '.hpp', '.c', '.h')
COMMENT = {'.cpp': '//', '.hpp': '//', '.c': '//', '.h': '//', '.py': '#', '.sh': '#',
           '.cmake': '#', '.toml': '#'}
# Written so that this file does not match its own patterns.
MACHINE_PATHS = re.compile(r'(?<![\w.$}])/(?:' + '|'.join(('work', 'root', r'home/\w+')) + r')/\w')


class Report:
    def __init__(self):
        self.lines = []
        self.warnings = []
        self.used = set()

    def add(self, rule, path, line, message):
        self.append(self.lines, rule, path, f'{path}:{line}: {message} [{rule}]')

    def warn(self, rule, path, line, message):
        self.append(self.warnings, rule, path, f'{path}:{line}: warning: {message} [{rule}]')

    def add_length(self, path, text, limit, warned):
        """A file above `limit` lines is an error; above `warned`, a warning."""
        lines = text.count('\n')
        if lines > limit:
            self.add('lines', path, 1, f'{lines} lines, the limit is {limit}')
        elif lines > warned:
            self.warn('lines', path, 1, f'{lines} lines, aim at {warned}')

    def append(self, lines, rule, path, text):
        if (rule, path) in rules.EXCEPTIONS:
            self.used.add((rule, path))
        else:
            lines.append(text)


def files_of(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(root / folder):
            folders[:] = sorted(f for f in folders if f not in SKIPPED)
            for name in sorted(names):
                yield (Path(where) / name).relative_to(root).as_posix()
    # In a worktree .git is a file that names a folder on this machine.
    yield from sorted(f.name for f in root.iterdir() if f.is_file() and f.name != '.git')


def read_text(path):
    raw = path.read_bytes()
    return None if b'\0' in raw else raw.decode('utf-8', 'replace')


def comment_mark(path, text):
    name = os.path.basename(path)
    if name == 'CMakeLists.txt' or (text.startswith('#!') and '.' not in name):
        return '#'
    return COMMENT.get(os.path.splitext(name)[1])


def is_cmake(path):
    return os.path.basename(path) == 'CMakeLists.txt'


def check_text(path, text, report):
    """Rules for any text file."""
    table = path.endswith('.md')
    data = (path.endswith(('.csv', '.json', '.svg', '.txt')) and not is_cmake(path)
            or path == 'LICENSE')
    for number, line in enumerate(text.split('\n'), 1):
        if len(line) > rules.LINE_COLUMNS_MAX and not data and not (
                table and line.lstrip().startswith(('|', '[')) or '://' in line):
            report.add('columns', path, number, f'{len(line)} columns')
        if line != line.rstrip() and not data:
            report.add('blanks', path, number, 'blanks at the end of the line')
        if MACHINE_PATHS.search(line):
            report.add('machine', path, number, 'names a path of one machine')
        if re.search(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b(?!\(#\d+\))', line) and path != 'LICENSE':
            report.add('todo', path, number, 'an open task needs its number: TO' 'DO(#12)')
    if text and not text.endswith('\n'):
        report.add('blanks', path, text.count('\n') + 1, 'no newline at the end of the file')
    mark = comment_mark(path, text)
    if mark:
        head = [line for line in text.split('\n')[:2] if not line.startswith('#!')]
        if not head or head[0] not in (f'{mark} SPDX-License-Identifier: Apache-2.0',
                                       '/* SPDX-License-Identifier: Apache-2.0'):
            report.add('spdx', path, 1, f'must begin with "{mark} SPDX-License-Identifier: …"')
    if path.endswith('README.md'):
        report.add_length(path, text, rules.README_LINES_MAX, rules.README_LINES_WARNED)


def check_vocabulary(path, text, report):
    for number, line in enumerate(text.split('\n'), 1):
        for pattern, instead in rules.VOCABULARY:
            if found := re.search(pattern, line):
                report.add('vocabulary', path, number, f'"{found.group(0)}" is now {instead}')


def check_cmake(path, text, context, report):
    if text.count('\n') > rules.CMAKE_LINES_MAX:
        report.add('lines', path, 1, f'{text.count(chr(10))} lines, the limit is '
                                     f'{rules.CMAKE_LINES_MAX}')
    cmake.check(path, text, context, report)


def check_python(path, text, report):
    """Only sleeping, because linters check the rest. Code in strings belongs to a worker, which may
    sleep."""
    for number, line in enumerate(source.python_code(text).split('\n'), 1):
        if re.search(r'\bsleep\s*\(|\bimport sleep\b', line):
            report.add('sleep', path, number, 'wait for the event itself, with a deadline')


def check_header(path, text, report):
    if '#pragma once' not in text:
        report.add('header', path, 1, 'no #pragma once')
    if re.search(r'^\s*using namespace', text, re.M):
        report.add('header', path, 1, 'using namespace in a header')
    comment = 0
    for line in text.split('\n')[1:]:
        if not line.startswith('//'):
            break
        comment += 1
    if not 1 <= comment <= rules.HEADER_COMMENT_LINES_MAX:
        report.add('header', path, 2, f'opens with {comment} lines on what it is for, wanted: 1 to '
                                      f'{rules.HEADER_COMMENT_LINES_MAX}')


def check_sizes(path, text, report):
    is_header = path.endswith(('.hpp', '.h'))
    limit, warned = rules.SOURCE_LINES_MAX, rules.SOURCE_LINES_WARNED
    if path.startswith('tests/'):
        limit = warned = rules.TEST_LINES_MAX
    elif is_header:
        limit = warned = rules.HEADER_LINES_MAX
    report.add_length(path, text, limit, warned)
    for function in source.functions(text):
        for what, value, most in (('lines', function.lines, rules.FUNCTION_LINES_MAX),
                                  ('parameters', function.parameters, rules.PARAMETERS_MAX),
                                  ('levels of nesting', function.nesting, rules.NESTING_MAX)):
            if value > most:
                report.add('function', path, function.line,
                           f'{function.name} has {value} {what}, the limit is {most}')


def check_words(path, text, report):
    code = source.blank(text)
    for pattern, where, but_not, why in rules.BANNED:
        if not path.startswith(where) or path.startswith(tuple(but_not) or ('\0',)):
            continue
        for number, line in enumerate(code.split('\n'), 1):
            found = re.search(pattern, line)
            if found and not line.lstrip().startswith('#'):
                report.add('words', path, number, f'"{found.group(0)}": {why}')


def read_arrows(root):
    """The table in lib/README.md: room → (rooms and headers it may include, third-party rows)."""
    arrows = {}
    text = (root / 'lib/README.md').read_text()
    for line in text[text.index('## Who may include whom'):].split('\n'):
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) == 3 and re.match(r'(lib|rendezvous|apps)\b', cells[0]):
            third = {}
            for entry in cells[2].split(';'):
                name, _, only = entry.strip().partition(' in ')
                third[name] = only.split()
            arrows[cells[0]] = (cells[1].split(), third)
    return arrows


def room_of(path, arrows):
    fits = [room for room in arrows if path.startswith(room + '/')]
    return max(fits, key=len) if fits else None


def check_quoted(path, number, name, context, report):
    root, room, arrows = context
    if '..' in name:
        report.add('arrow', path, number, f'"{name}" is not written from a root')
        return
    bases = ['lib/', '', 'tests/', 'apps/']
    if path.startswith(('tests/', 'apps/', 'examples/')):  # no other file includes these
        bases.append(os.path.dirname(path) + '/')
    targets = [base + name for base in bases if (root / (base + name)).is_file()]
    target = targets[0] if targets else None
    if target is None:
        report.add('arrow', path, number, f'"{name}" does not exist below lib or the repository')
    elif room and target.startswith('tests/'):
        report.add('arrow', path, number, f'{room} may not include tests')
    elif room and not any(target == to or target.startswith(to + '/') for to in arrows[room][0]):
        report.add('arrow', path, number, f'{room} may not include {target}')


def check_third_party(path, number, name, context, report):
    _, room, arrows = context
    library = name.split('/')[0]
    if library == 'catch2':
        if path != 'tests/support/catch.hpp':
            report.add('arrow', path, number, 'Catch2 comes through tests/support/catch.hpp')
    elif library == 'fmt' and path.endswith('.hpp'):
        report.add('arrow', path, number, 'fmt is for source files, not for headers')
    elif room and library in ('asio', 'asio.hpp', 'CLI', 'nlohmann', 'openssl', 'spdlog', 'ares.h',
                              'toml++', 'http_parser.h'):
        only = arrows[room][1].get('asio' if library == 'asio.hpp' else library)
        if only is None or (only and os.path.basename(path) not in only):
            report.add('arrow', path, number, f'{library} is not allowed here')


def check_includes(path, text, root, arrows, report):
    room = room_of(path, arrows)
    if room is None and path.startswith(('lib/', 'rendezvous/', 'apps/')):
        report.add('arrow', path, 1, 'its room has no row in lib/README.md')
    for number, name, quoted in source.includes(text):
        check = check_quoted if quoted else check_third_party
        if quoted or '/' in name or name.endswith(('.h', '.hpp')):
            check(path, number, name, (root, room, arrows), report)


def check_rooms(root, report):
    rooms = [f'lib/{folder.name}' for folder in (root / 'lib').iterdir() if folder.is_dir()]
    for room in sorted(rooms) + ['lib', 'rendezvous', 'apps', 'tests', 'examples', '.']:
        has_files = any(child.suffix in ('.hpp', '.cpp', '.md', '.txt', '.py')
                        for child in (root / room).glob('*'))
        if has_files and not (root / room / 'README.md').is_file():
            report.add('readme', room, 1, 'no README.md')


def check_tree(root):
    return check(root).lines


def check(root):
    report = Report()
    arrows = read_arrows(root)
    texts = {path: read_text(root / path) for path in files_of(root)}
    texts = {path: text for path, text in texts.items() if text is not None}
    build = {path: text for path, text in texts.items() if is_cmake(path)}
    context = (cmake.libraries(build), arrows)
    for path, text in texts.items():
        check_text(path, text, report)
        if path.endswith((*CPP_ENDINGS, '.py', '.md')) and path != 'tests/tidy/rules.py':
            check_vocabulary(path, text, report)
        if path.endswith(CPP_ENDINGS):
            check_sizes(path, text, report)
            check_words(path, text, report)
            check_includes(path, text, root, arrows, report)
        if is_cmake(path):
            check_cmake(path, text, context, report)
        if comment_mark(path, text) == '#' and (path.endswith('.py') or 'python' in text[:40]):
            check_python(path, text, report)
        if path.endswith('.hpp'):
            check_header(path, text, report)
    check_rooms(root, report)
    for rule, path in sorted(set(rules.EXCEPTIONS) - report.used):
        report.lines.append(f'{path}:1: no exception from "{rule}" is needed any more [exceptions]')
    return report


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    report = check(root)
    lines = report.lines
    print('\n'.join(report.warnings + lines + [f'{len(lines)} violations of the house rules']))
    return 1 if lines else 0


if __name__ == '__main__':
    sys.exit(main())
