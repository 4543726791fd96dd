#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links on all Markdown pages in the tree lead to existing files and headings. mkdocs
checks docs/ as a site; this test checks the tree as GitHub shows it."""
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import tidy  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r'\]\(([^)\s]+)\)')


def links(text):
    """Targets of the links outside of code."""
    return LINK.findall(re.sub(r'^```.*?^```|`[^`\n]*`', '', text, flags=re.M | re.S))


def anchors(text):
    """The anchors of a page's headings: lower case, no punctuation, dashes instead of blanks."""
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    headings = re.findall(r'^#+ (.+)$', text, re.M)
    plain = [re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading) for heading in headings]
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in plain}


def broken(root, page):
    text = (root / page).read_text()
    for target in links(text):
        name, _, anchor = target.partition('#')
        file = (root / page).parent / name if name else root / page
        if '://' in target or target.startswith('mailto:'):
            continue
        if not file.exists():
            yield f'{page}: no file {target}'
        elif anchor and file.suffix == '.md' and anchor not in anchors(file.read_text()):
            yield f'{page}: no heading {target}'


class Links(unittest.TestCase):
    def test_each_relative_link_leads_somewhere(self):
        pages = [path for path in tidy.files_of(ROOT) if path.endswith('.md')]
        self.assertTrue({'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/index.md',
                         'lib/README.md'} <= set(pages))
        self.assertEqual([line for page in pages for line in broken(ROOT, page)], [])

    def test_links_and_anchors_are_found_outside_of_code(self):
        text = '# A "b": c_d (e)\n[x](y.md#z), `[n](m)`\n```\n# no\n[k](l)\n```\n## [F](g) h\n'
        self.assertEqual(links(text), ['y.md#z', 'g'])
        self.assertEqual(anchors(text), {'a-b-c_d-e', 'f-h'})


if __name__ == '__main__':
    unittest.main()
