# SPDX-License-Identifier: Apache-2.0
"""The other ranks of a job, for tests of one rank of muster.elastic in this process."""
from muster.elastic import _link


class Others(_link.Link):
    """The other ranks, which have this number of commits and these values."""

    def __init__(self, commits, values):
        self.commits, self.values = commits, values

    def gather(self, number):
        return [self.commits, number]

    def broadcast(self, value, root):
        return self.values if root == 0 else value
