# SPDX-License-Identifier: Apache-2.0
"""Figures of several programs, taken in rounds in which every program runs once. Ratios are
computed within a round, because the load on the host may change between rounds."""
from dataclasses import dataclass, field


def parse_figures(text):
    """Parses lines like "f32:1024 0.42" from ranks to {key: number}. Skips other lines."""
    figures = {}
    for line in text.splitlines():
        key, _, number = line.partition(' ')
        try:
            figures[key] = float(number)
        except ValueError:
            pass
    return figures


@dataclass
class Rounds:
    by_peer: dict = field(default_factory=dict)  # {peer: figures of each round}, {} if it failed
    missing: dict = field(default_factory=dict)  # {missing peer: reason}

    def count(self):
        return max(map(len, self.by_peer.values()), default=0)

    def figure(self, peer, turn, key):
        series = self.by_peer.get(peer, [])
        return series[turn].get(key) if turn < len(series) else None

    def drop_disturbed(self, peer, key, slack):
        """Drops, for all programs, the rounds in which this program took more than slack times its
        best time, because the host was busy. Returns the number of dropped rounds."""
        figures = [self.figure(peer, turn, key) for turn in range(self.count())]
        best = min((one for one in figures if one is not None), default=None)
        slow = [turn for turn, one in enumerate(figures) if one is not None and one > slack * best]
        for name, series in self.by_peer.items():
            self.by_peer[name] = [one for turn, one in enumerate(series) if turn not in slow]
        return len(slow)

    def fill_row(self, table, peer, keys):
        """Fills a row with one sample for each round in which the program printed the column's
        key."""
        for cell, key in zip(table.row(peer), keys):
            figures = [self.figure(peer, turn, key) for turn in range(self.count())]
            cell.samples = [one for one in figures if one is not None]
            if not cell.samples:
                failed = key and peer in self.by_peer and not any(self.by_peer[peer])
                cell.missing = self.missing.get(peer, 'failed' if failed else '')

    def fill_ratio(self, table, name, others, peer, keys, other_keys=None):
        """Fills a row with ratios per round: the minimum of the others' figures over this
        program's. other_keys: the keys for the others; by default the same as keys."""
        for cell, key, other_key in zip(table.row(name), keys, other_keys or keys):
            for turn in range(self.count()):
                own = self.figure(peer, turn, key)
                best = [self.figure(other, turn, other_key) for other in others]
                best = min((one for one in best if one is not None), default=None)
                if own and best is not None:
                    cell.samples.append(best / own)
