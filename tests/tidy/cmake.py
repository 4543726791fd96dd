# SPDX-License-Identifier: Apache-2.0
"""The rules for CMakeLists.txt: sources are listed one by one and in order, and a room links the
rooms that lib/README.md allows it to include."""
import os
import re

_COMMAND = re.compile(r'^[ \t]*(\w+)\s*\(((?:[^()"]|"(?:\\.|[^"\\])*"|\([^()]*\))*)\)', re.M)
_LINKING = ('muster_add_room', 'muster_add_test', 'target_link_libraries')
_SOURCE = re.compile(r'[\w./-]+\.(?:cpp|hpp|c|h)$')


def commands(text):
    """(line, name, words) of every command, without comments."""
    text = re.sub(r'#[^\n]*', '', text)
    for match in _COMMAND.finditer(text):
        yield (text.count('\n', 0, match.start(1)) + 1, match.group(1).lower(),
               match.group(2).split())


def lists_of_sources(words):
    """Neighbouring names of source files: each keyword (SOURCES, HEADERS) starts a new list."""
    found = [[]]
    for word in words:
        if _SOURCE.match(word):
            found[-1].append(word)
        elif found[-1]:
            found.append([])
    return found


def misplaced(names):
    """The first name that is out of order after the previous one in the same folder. Folders may
    come in any order, for example lowest layer first."""
    last = {}
    for name in names:
        folder = os.path.dirname(name)
        if name < last.get(folder, ''):
            return name
        last[folder] = name
    return None


def libraries(texts):
    """{library: its room} for all muster_add_room calls; texts: {path of a CMakeLists.txt: its
    text}."""
    return {words[0]: os.path.dirname(path) for path, text in texts.items()
            for _, name, words in commands(text) if name == 'muster_add_room' and words}


def check_links(path, line, words, context, report):
    """A CMakeLists.txt may build several rooms of the table: those in its folder and in its
    subfolders."""
    rooms, arrows = context
    folder = os.path.dirname(path)
    own = [room for room in arrows if f'{room}/'.startswith(f'{folder}/')]
    allowed = [to for room in own for to in arrows[room][0]]
    for word in words:
        target = rooms.get(word[len('muster::'):]) if word.startswith('muster::') else None
        if own and target and not any(
                f'{target}/'.startswith(f'{to}/') or to.startswith(f'{target}/')
                for to in [*allowed, folder]):
            report.add('link', path, line, f'{folder} may not link {word} ({target})')


def check(path, text, context, report):
    for line, name, words in commands(text):
        if name == 'aux_source_directory' or (name == 'file' and words[:1] and
                                              words[0].startswith('GLOB')):
            report.add('sources', path, line, 'sources are listed, not globbed')
        for names in lists_of_sources(words):
            if wrong := misplaced(names):
                report.add('sources', path, line, f'{wrong} is not in its alphabetical place')
        if name in _LINKING:
            check_links(path, line, words, context, report)
