#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The launcher reads each field of the configuration outside of lib/config. This test fails for a
setting that is parsed, checked and explained, but not used."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STRUCTS = (('lib/config/launch_config.hpp', 'LaunchConfig'),
           ('lib/config/rendezvous_config.hpp', 'RendezvousConfig'))
READERS = ('lib/plan', 'lib/agent', 'apps/muster')

# Fields that are only for --explain, and where their effect is instead.
EXPLAINED = {
    'usable_cpus_reason': 'says how usable_cpus was counted',
    'devices': "its effect is the workers' visibility variables",
    'rdzv_conf': 'as typed; rendezvous is what it means',
    'standalone': 'its effect is rdzv_backend, rdzv_endpoints and rdzv_id',
    'config_file': 'its effect is the settings in it',
    'origins': 'where settings came from',
    'shown': 'how --explain prints settings',
}


def fields(text, struct):
    body = re.search(r'\nstruct ' + struct + r' \{\n(.*?)\n\};', text, re.S).group(1)
    body = re.sub(r'//[^\n]*', '', body)
    names = []
    for statement in body.split(';'):
        found = re.match(r'[\w:<>,\s]+[\s>](\w+)\s*(=|\{|$)', statement.strip())
        if found and found.group(1) != 'operator':
            names.append(found.group(1))
    return names


def sources():
    for folder in READERS:
        for path in sorted((ROOT / folder).rglob('*.[ch]pp')):
            yield path.read_text()


def is_read(name, texts):
    read = re.compile(r'\bconfig(_|\(\))?\.(rendezvous\.)?' + name + r'\b(?!\s*=[^=])')
    return any(read.search(text) for text in texts)


class Fields(unittest.TestCase):
    def test_the_launcher_reads_each_field(self):
        texts = list(sources())
        for file, struct in STRUCTS:
            names = fields((ROOT / file).read_text(), struct)
            self.assertGreater(len(names), 4, struct)
            for name in names:
                with self.subTest(struct=struct, field=name):
                    self.assertNotEqual(is_read(name, texts), name in EXPLAINED)

    def test_a_field_that_nothing_reads_is_found(self):
        planted = '\nstruct RendezvousConfig {\n  Duration idle =\n      seconds(3);  // x\n};'
        self.assertEqual(fields(planted, 'RendezvousConfig'), ['idle'])
        self.assertFalse(is_read('idle', ['settings.idle = config.idle_more; config.idle = 3;']))
        self.assertTrue(is_read('idle', ['settings.idle = config.rendezvous.idle;']))


if __name__ == '__main__':
    unittest.main()
