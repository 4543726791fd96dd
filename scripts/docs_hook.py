# SPDX-License-Identifier: Apache-2.0
"""An mkdocs hook that converts Markdown written for the repository's browser to Markdown for
mkdocs.

Pages in docs/ link to files elsewhere in the repository (../lib/…/README.md), which must exist but
are not on the site. The hook changes such a link to a link under repo_url if mkdocs.yml sets that,
or else to plain text."""
import logging
import posixpath
import re
from pathlib import Path

LOG = logging.getLogger('mkdocs.hooks.docs_hook')
LINK = re.compile(r'(!?)\[([^\]]+)\]\(([^)\s]+)\)')
FENCE = re.compile(r'(^```.*?^```)', re.M | re.S)


def replace_links(text, page, config):
    root = Path(config['docs_dir']).parent

    def replace(found):
        mark, shown, target = found.groups()
        path, hash_mark, anchor = target.partition('#')
        place = posixpath.normpath(posixpath.join('docs', posixpath.dirname(page), path))
        if '://' in target or not path or place.startswith('docs/'):
            return found.group()
        if not (root / place).exists():
            LOG.warning('%s: link to a file that does not exist: %s', page, target)
        if config['repo_url'] and not mark:
            url = config['repo_url'].rstrip('/')
            return f'[{shown}]({url}/blob/main/{place}{hash_mark}{anchor})'
        return shown

    return LINK.sub(replace, text)


def unescape_pipes(text):
    """In code inside a table, GitHub needs \\| for a pipe, but mkdocs would show the backslash."""
    return re.sub(r'`[^`\n]*`', lambda found: found.group().replace(r'\|', '|'), text)


def on_page_markdown(markdown, page, config, **_):
    # The word after the language is for tests. With that word, mkdocs would not recognize the
    # block.
    markdown = re.sub(r'^```(\w+) runnable$', r'```\1', markdown, flags=re.M)
    parts = FENCE.split(markdown)
    parts[::2] = [unescape_pipes(replace_links(part, page.file.src_uri, config))
                  for part in parts[::2]]
    return ''.join(parts)
