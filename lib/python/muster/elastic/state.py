# SPDX-License-Identifier: Apache-2.0
"""State: the values that a training function carries from one step to the next."""
from __future__ import annotations

import copy
import os
import pickle
import sys
from typing import (Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, TypeVar,
                    cast)

from .. import worker
from ..communicator import Communicator
from ._copies import ARRAYS, Kind, arrays_in, copy_of
from ._link import CommunicatorLink, Link
from ._local import Local, put_generators, take_generators
from ._news import AnyNews, Members, NoNews, Reset

Callback = TypeVar("Callback", bound=Callable[[], Any])

_NEW = -1  # the counter of a process that has no state yet


class Commit(NamedTuple):
    """A commit. counter: the number of commits since the job started. values: the same on all
    ranks. local: what differs between ranks."""

    counter: int
    values: Dict[str, Any]
    local: Local


class State:
    """The job's values, as attributes: state = State(step=0, weights=numpy.zeros(10)).

    Values must be picklable and support copy.deepcopy. All ranks hold the same values, because a
    replaced process receives the values of another rank. Attributes that the constructor did not
    list raise AttributeError, because they would be lost.

    Each rank also stores its random generators: those of Python, and of NumPy if the program has
    imported it. restore() sets them. Each commit and each operation of the communicator writes
    them to memory that muster keeps for the replacement of this rank (--vault-memory).

    Arrays are copied to the memory of the commit before the last, so the last two are kept.

    Only the training thread may call methods and change values.
    """

    def __init__(self, **values: Any) -> None:
        self._values: Dict[str, Any] = {}
        for name in values:
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError(f"State cannot have a value with the name '{name}'; choose "
                                 "another name")
        self._values.update(values)
        self._saved: Optional[Commit] = None
        self._spare: List[Any] = []  # arrays of the commit before the last; used for the next
        self._callbacks: List[Callable[[], Any]] = []
        self._link: Optional[Link] = None
        self._news: AnyNews = NoNews()
        self._epoch = 0

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"the state has no value '{name}'; pass it to the constructor")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        elif name in self._values:
            self._values[name] = value
        else:
            raise AttributeError(f"the state has no value '{name}'; pass it to the constructor")

    @property
    def comm(self) -> Communicator:
        """The muster.Communicator of all ranks. Each entry into the function has a new one, so do
        not keep it, its buckets or its GradientSyncs. RuntimeError: outside of the function, or in
        a TorchState."""
        if self._link is None or self._link.comm is None:
            raise RuntimeError("there is no communicator: use state.comm inside the function that "
                               "elastic.run decorates, and torch.distributed with a TorchState")
        return self._link.comm

    @property
    def commits(self) -> int:
        """The number of commits since the job started; the same on all ranks after sync()."""
        return max(self._saved.counter, 0) if self._saved is not None else 0

    def commit(self) -> None:
        """Stores a copy of all values in memory and reports the number of commits as this rank's
        progress. All ranks must commit at the same points of the function. After the loss of a
        rank, all ranks continue from the newest commit that any of them has.

        Reset: another rank was lost; the copy has been stored. It must reach elastic.run."""
        self._save(self.commits + 1)
        worker.progress(self.commits)
        if self._news.is_over(self._epoch):
            raise Reset(f"a rank was lost in epoch {self._epoch}")

    def restore(self) -> None:
        """Returns to the last commit. A no-op if there is none."""
        if self._saved is not None:
            self._put(self._saved.values)
            self._put_local(self._saved.local)

    def sync(self) -> None:
        """Gives all ranks the values of the rank with the most commits, or of the lowest such
        rank; at the start of the job, rank 0's values. Collective; elastic.run calls it before it
        calls the function. Raises the errors of collective operations."""
        assert self._link is not None
        if self._saved is None:
            self._save(_NEW)
        saved = self._saved
        assert saved is not None
        counters = self._link.gather(saved.counter)
        newest = counters.index(max(counters))
        values = self._link.broadcast(saved.values, newest)
        is_own = saved.counter == counters[newest] > _NEW
        counter = max(counters[newest], 0)
        self._saved = Commit(counter, values, saved.local if is_own else self._find_local(counter))
        self.restore()
        self._synced()

    def on_reset(self, function: Callback) -> Callback:
        """Registers a function that elastic.run calls after each loss of a rank, in surviving
        processes, before it enters the training function again. Can be used as a decorator."""
        self._callbacks.append(function)
        return function

    def register_reset_callbacks(self, functions: Iterable[Callable[[], Any]]) -> None:
        """Like on_reset(), for several functions. They are called in this order."""
        self._callbacks.extend(functions)

    # For elastic.run.

    def _make_link(self, members: Members, backend: Optional[str]) -> Link:
        return CommunicatorLink(members, backend)

    def _attach(self, link: Optional[Link], news: AnyNews, epoch: int) -> None:
        self._link, self._news, self._epoch = link, news, epoch

    def _call_callbacks(self) -> None:
        for function in self._callbacks:
            function()

    def _save(self, counter: int) -> None:
        """One assignment, so that an interrupted copy does not change the last commit."""
        before = self._saved
        self._saved = Commit(counter, self._take(), self._take_local())
        if before is not None:
            self._spare = arrays_in(before.values, self._kinds)
        if counter >= 0:
            self._write(counter, self._saved.local, True)

    def _take(self) -> Dict[str, Any]:
        """A copy of the values."""
        spare, self._spare = self._spare, []  # if the commit fails, they are not used again
        return cast(Dict[str, Any], copy_of(self._current(), spare, self._kinds))

    def _intend(self) -> None:
        """Before this rank sends what other ranks need for the next commit, because then they may
        commit without it."""
        self._write(self.commits + 1, self._take_local(), False)

    def _write(self, counter: int, local: Local, is_commit: bool) -> None:
        if self._news.record is not None:
            self._news.record.write(counter, pickle.dumps(local, 4), is_commit)

    def _find_local(self, counter: int) -> Local:
        """This rank's own part of a commit whose values another rank has sent."""
        record = self._news.record
        data = None if record is None else record.read(counter)
        if data is not None:
            return cast(Local, pickle.loads(data))
        if self._news.keeps_records and counter > 0:
            print(f"muster: warning: rank {os.environ.get('RANK')} has no intact record of commit "
                  f"{counter}; its random generators continue from a different state",
                  file=sys.stderr, flush=True)
        return self._local_of_new_process()

    def _synced(self) -> None:
        """All ranks have the same commit. Writes no commit twice: this process may die while it
        writes."""
        assert self._saved is not None
        self._saved = self._saved._replace(local=self._take_local())
        record, counter = self._news.record, self._saved.counter
        if record is not None:
            record.forget_after(counter)
            if not record.has_commit(counter):
                self._write(counter, self._saved.local, True)
            if self._link is not None and self._link.comm is not None:
                self._link.comm.core().before_send = self._intend

    # Overridden by TorchState.

    _kinds: Sequence[Kind] = (ARRAYS,)

    def _current(self) -> Dict[str, Any]:
        """The values to copy."""
        return self._values

    def _put(self, values: Dict[str, Any]) -> None:
        """Changes the values to a copy of these."""
        self._values.update(copy.deepcopy(values))

    def _take_local(self) -> Local:
        """The part of a commit that only this rank has."""
        return take_generators()

    def _put_local(self, local: Local) -> None:
        put_generators(local)

    def _local_of_new_process(self) -> Local:
        """What a rank without a record continues from."""
        assert self._saved is not None
        return self._saved.local
