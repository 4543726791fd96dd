# SPDX-License-Identifier: Apache-2.0
"""Reads C++ just well enough for the house rules: blanks out comments and strings, and finds
functions with their length, parameters and nesting. Needs no compiler, so it takes a second."""
import io
import re
import tokenize
from dataclasses import dataclass

_SKIP = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'', re.S)
_SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b[^()]*$|extern\s*$')
_CONTROL = re.compile(r'(?:^|[;{}\s)])(if|for|while|switch|catch)\b|\b(else|do|try)\s*$')


@dataclass
class Function:
    name: str
    line: int
    lines: int
    parameters: int
    nesting: int


def blank(text):
    """The same text with comments, strings and characters replaced by blanks, lines kept."""
    def replace(match):
        found = match.group(0)
        inner = re.sub(r'[^\n]', ' ', found)
        return inner if found.startswith('/') else '"' + inner[1:-1] + '"'
    return _SKIP.sub(replace, text)


def python_code(text):
    """Python with comments and strings replaced by blanks, lines kept."""
    lines = [list(line) for line in text.split('\n')]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (first, begin), (last, end) = token.start, token.end
            for row in range(first, last + 1):
                line = lines[row - 1]
                left, right = begin if row == first else 0, end if row == last else len(line)
                line[left:right] = ' ' * (right - left)
    return '\n'.join(map(''.join, lines))


def _without_directives(text):
    out, keep = [], True
    for line in text.split('\n'):
        directive = line.lstrip().startswith('#') or not keep
        keep = not (directive and line.rstrip().endswith('\\'))
        out.append('' if directive else line)
    return '\n'.join(out)


def _parameter_list(head):
    """The first parenthesis that follows a name at the top level of a function's head."""
    at = re.search(r'(?:[\w>~]|operator\s*(?:\(\)|\S+?))\s*\(', head)
    if not at:
        return '', ''
    depth, start = 0, at.end()
    for i in range(start - 1, len(head)):
        depth += {'(': 1, ')': -1}.get(head[i], 0)
        if depth == 0:
            return head[:start - 1], head[start:i]
    return '', ''


def _count_parameters(text):
    if not text.strip() or text.strip() == 'void':
        return 0
    depth, count = 0, 1
    for char in text:
        depth += {'(': 1, '[': 1, '{': 1, '<': 1, ')': -1, ']': -1, '}': -1, '>': -1}.get(char, 0)
        count += char == ',' and depth == 0
    return count


def _kind(head, inside):
    if _CONTROL.search(head) and inside:
        return 'control'
    if not inside and _SCOPE.search(re.sub(r'<[^<>]*>', '', head)):
        return 'scope'
    if not inside and ')' in head and not re.search(r'=\s*$', head):
        return 'function'
    return 'block'


def functions(text):
    """Every function body outside other functions; lambdas count as part of the enclosing
    function."""
    text = _without_directives(blank(text))
    stack, found, head, line = [], [], '', 1
    for char in text:
        line += char == '\n'
        if char == '{':
            inside = any(entry[0] == 'function' for entry in stack)
            stack.append((_kind(head, inside), head, line))
            if stack[-1][0] == 'control':
                depth = 0
                for entry in stack:
                    depth = 0 if entry[0] == 'function' else depth + (entry[0] == 'control')
                    if entry[0] == 'function':
                        current = entry
                worst[id(current)] = max(worst.get(id(current), 0), depth)
            elif stack[-1][0] == 'function':
                worst = {}
            head = ''
        elif char == '}':
            if stack:
                kind, its_head, start = entry = stack.pop()
                if kind == 'function':
                    name, parameters = _parameter_list(its_head)
                    name = (name.split() or ['?'])[-1]
                    count = 0 if name.isupper() else _count_parameters(parameters)  # a macro's
                    found.append(Function(name, start, line - start + 1, count,
                                          worst.get(id(entry), 0)))
            head = ''
        elif char == ';' and head.count('(') <= head.count(')'):
            head = ''
        else:
            head += char
    return found


def includes(text):
    """(line, name, quoted) of every #include."""
    out = []
    for number, line in enumerate(text.split('\n'), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            out.append((number, match.group(2), match.group(1) == '"'))
    return out
