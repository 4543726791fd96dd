# SPDX-License-Identifier: Apache-2.0
"""Sampler: which samples this rank processes in each step."""
from __future__ import annotations

import os
import random
from typing import Iterator, List, Optional, Union

from .state import State


class Sampler:
    """Lists of sample numbers, one list per step. Depends only on its arguments, so no sample is
    lost or repeated after the loss of a rank. Can be the batch_sampler of a DataLoader.

    Each pass over the data has its own random order, the same on all ranks. A pass has
    len(sampler) steps. Each step uses batch × world_size samples; the remaining samples of a pass,
    fewer than that, are left out.

    length: number of samples. batch: samples per step and rank. start: number of steps that are
    complete; or a State, whose value `step` is read when an iteration starts. seed: selects the
    orders. rank, world_size: None for those of the job (RANK, WORLD_SIZE). ValueError: there are
    fewer samples than a step needs.
    """

    def __init__(self, length: int, batch: int, start: Union[int, State] = 0, seed: int = 0,
                 rank: Optional[int] = None, world_size: Optional[int] = None) -> None:
        self._length, self._batch, self._start, self._seed = length, batch, start, seed
        self._rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._size = int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        self._pass, self._order = -1, list(range(0))
        if batch < 1 or len(self) < 1:
            raise ValueError(f"{length} samples do not suffice for one step of {self._size} "
                             f"ranks with {batch} samples each")

    def __len__(self) -> int:
        """The number of steps in a pass."""
        return self._length // (self._batch * self._size)

    def __getitem__(self, step: int) -> List[int]:
        """This rank's samples in a step, counted from the start of the job."""
        number, at = divmod(step, len(self))
        if number != self._pass:
            order = list(range(self._length))
            random.Random(f"{self._seed}/{number}").shuffle(order)
            self._pass, self._order = number, order
        first = (at * self._size + self._rank) * self._batch
        return self._order[first:first + self._batch]

    def __iter__(self) -> Iterator[List[int]]:
        """The remaining steps of the current pass, which are all steps at the start of a pass."""
        start: int = self._start.step if isinstance(self._start, State) else self._start
        for step in range(start, (start // len(self) + 1) * len(self)):
            yield self[step]
