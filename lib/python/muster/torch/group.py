# SPDX-License-Identifier: Apache-2.0
"""The process group: implements torch.distributed's operations with those of the communicator."""
from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Iterable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import _library as c
from .. import errors
from . import checks, profiling
from . import overloads as o
from . import tensors as t
from .base import Base
from .overloads import Default, Options, Within
from .reductions import BITWISE, COMBINE, as_real, name_of, op_of
from .tensors import CopyBack, Tensors
from .version import VERSION
from .work import Work

# The indices come from tensors, so they need no checks. PyTorch 2 warns unless this is explicit.
_UNCHECKED = {} if VERSION < (2, 0) else {"check_invariants": False}
Timeout = Optional[timedelta]


class ProcessGroup(Base):
    """Created by init_process_group and new_group with the backend "muster". All ranks call the
    operations in the same order."""

    def allreduce(self, tensors: o.Tensors, opts: Options = Default, timeout: Timeout = None, *,
                  op: Any = None) -> Work:
        tensors, opts = o.as_list(tensors), o.options(opts, timeout, op=op)
        if len(tensors) > 0 and tensors[0].layout is torch.sparse_coo:
            return self._sparse(tensors, opts)
        if len(tensors) > 1:
            return self._several(tensors, opts)
        tensor = checks.single("allreduce", tensors)
        return self._reduction(c.ALL_REDUCE, tensor, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Options = Default) -> Work:
        checks.same_dtype("allreduce_coalesced", tensors)
        flat = t.flattened(tensors)
        is_copy = flat.data_ptr() != tensors[0].data_ptr()
        work = self._reduction(c.ALL_REDUCE, flat, opts)
        return self._then(work, tensors, t.copy_from(flat, tensors) if is_copy else None)

    def reduce(self, tensors: o.Tensors, opts: Options = Default, op: Any = None,
               timeout: Timeout = None, *, root: Optional[int] = None) -> Work:
        tensors, opts = o.as_list(tensors), o.options(opts, timeout, op=op, root=root)
        to = checks.root("reduce", opts.rootRank, self.size(), getattr(opts, "rootTensor", 0))
        return self._reduction(c.REDUCE, checks.single("reduce", tensors), opts, to)

    def broadcast(self, tensors: o.Tensors, opts: Options = Default, timeout: Timeout = None, *,
                  root: Optional[int] = None) -> Work:
        tensors, opts = o.as_list(tensors), o.options(opts, timeout, root=root)
        index = getattr(opts, "rootTensor", 0)
        source = checks.root("broadcast", opts.rootRank, self.size(), index, len(tensors))
        tensor = tensors[index]
        checks.alike("broadcast", tensors, tensors[0])
        flat = tensor.detach().contiguous()
        copies = [each for each in tensors
                  if each is not tensor or each.data_ptr() != flat.data_ptr()]

        def finish() -> None:
            for each in copies:
                t.write(each, flat)
        return self._collective(c.BROADCAST, None, flat, opts, outputs=tensors,
                                finish=finish if copies else None, root=source)

    def allgather(self, output_lists: Any, inputs: o.Tensors, opts: Options = Default,
                  timeout: Timeout = None) -> Work:
        inputs, output_lists = o.as_list(inputs), o.as_lists(output_lists)
        opts = o.options(opts, timeout)
        checks.for_each("allgather", output_lists, inputs, self.size())
        source = t.flattened(inputs)
        if len(inputs) == 1:
            outputs = output_lists[0]
            flat, copy_back = t.flat_output(outputs)
            return self._collective(c.ALL_GATHER, source, flat, opts, outputs=outputs,
                                    finish=copy_back)
        rows = source.new_empty((self.size(), source.numel()))

        def finish() -> None:
            for outputs in output_lists:
                t.copy_from(rows.view(-1), outputs)()
        return self._collective(c.ALL_GATHER, source, rows, opts, outputs=output_lists,
                                finish=finish)

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Options = Default,
                        timeout: Timeout = None) -> Work:
        checks.base("allgather", output, source, self.size())
        flat, copy_back = t.flat_output([output])
        return self._collective(c.ALL_GATHER, source.detach().contiguous(), flat,
                                o.options(opts, timeout), outputs=[output], finish=copy_back)

    def allgather_coalesced(self, output_lists: Sequence[Tensors], inputs: Tensors,
                            opts: Options = Default) -> Work:
        checks.coalesced("allgather_coalesced", output_lists, inputs, self.size())
        by_tensor = [[outputs[i] for outputs in output_lists] for i in range(len(inputs))]
        return self._all(self.allgather([outputs], [source], opts)
                         for outputs, source in zip(by_tensor, inputs))

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Options = Default) -> Work:
        return self._all(self._allgather_base(output, source, opts)
                         for output, source in zip(outputs, inputs))

    def gather(self, output_lists: Any, inputs: o.Tensors, opts: Options = Default,
               timeout: Timeout = None, *, root: Optional[int] = None) -> Work:
        inputs, output_lists = o.as_list(inputs), o.as_lists(output_lists)
        opts = o.options(opts, timeout, root=root)
        to = checks.root("gather", opts.rootRank, self.size())
        source = checks.single("gather", inputs, "input tensor list").detach().contiguous()
        outputs: Tensors = []
        if self.rank() == to:
            outputs = checks.one_of_each("gather", output_lists, self.size(), "output")
            checks.alike("gather", outputs, source)
        else:
            checks.none("gather", output_lists, "output")
        flat, copy_back = (t.flat_output(outputs) if outputs
                           else (source.new_empty(source.numel() * self.size()), None))
        return self._collective(c.ALL_GATHER, source, flat, opts, outputs=outputs,
                                finish=copy_back)

    def scatter(self, outputs: o.Tensors, input_lists: Any, opts: Options = Default,
                timeout: Timeout = None, *, root: Optional[int] = None) -> Work:
        outputs, input_lists = o.as_list(outputs), o.as_lists(input_lists)
        opts = o.options(opts, timeout, root=root)
        source = checks.root("scatter", opts.rootRank, self.size())
        target = checks.single("scatter", outputs, "output tensor list")
        count = target.numel()
        if self.rank() == source:
            inputs = checks.one_of_each("scatter", input_lists, self.size(), "input")
            checks.alike("scatter", inputs, target)
            flat = t.flattened(inputs)
        else:
            checks.none("scatter", input_lists, "input")
            flat = target.new_empty(count * self.size())
        mine = flat[self.rank() * count:(self.rank() + 1) * count]
        return self._collective(c.BROADCAST, None, flat, opts, outputs=outputs,
                                finish=t.copy_from(mine, [target]), root=source)

    def reduce_scatter(self, outputs: o.Tensors, input_lists: Any, opts: Options = Default,
                       timeout: Timeout = None, *, op: Any = None) -> Work:
        outputs, input_lists = o.as_list(outputs), o.as_lists(input_lists)
        opts = o.options(opts, timeout, op=op)
        target = checks.single("reduce_scatter", outputs, "output tensor list")
        if len(input_lists) != 1 or len(input_lists[0]) != self.size():
            raise checks.refuse("reduce_scatter",
                                "invalid input tensor list size, must be world size")
        inputs = input_lists[0]
        checks.alike("reduce_scatter", inputs, target, sizes=False)
        mine = inputs[self.rank()]
        checks.alike("reduce_scatter", [mine], target)
        if all(each.numel() == mine.numel() for each in inputs):
            return self._reduce_scatter_base(target, t.flattened(inputs), opts)
        # Unequal sizes: sum all parts, then take this rank's part.
        flat = torch.cat([each.detach().reshape(-1) for each in inputs])
        start = sum(each.numel() for each in inputs[:self.rank()])
        part = flat[start:start + mine.numel()]
        return self._then(self._reduction(c.ALL_REDUCE, flat, opts), [target],
                          t.copy_from(part, [target]))

    def _reduce_scatter_base(self, output: torch.Tensor, source: torch.Tensor,
                             opts: Options = Default, timeout: Timeout = None) -> Work:
        checks.base("reduce_scatter", source, output, self.size())
        opts = o.options(opts, timeout)
        source, result = as_real(source, opts), as_real(output, opts)
        name, op, scale = op_of(opts, source.dtype)
        source = source.detach().contiguous()
        if name in BITWISE and op is None:
            return self._bitwise(source, result, opts, self.rank())
        flat, copy_back = t.flat_output([result])
        return self._collective(c.REDUCE_SCATTER, source, flat, opts, outputs=[output],
                                finish=copy_back, op=op, scale=scale)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Options = Default) -> Work:
        return self._all(self._reduce_scatter_base(output, source, opts)
                         for output, source in zip(outputs, inputs))

    def alltoall_base(self, output: torch.Tensor, source: torch.Tensor,
                      output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Options = Default, timeout: Timeout = None) -> Work:
        checks.alike("alltoall_base", [output], source, sizes=False)
        checks.contiguous("alltoall_base", (output, source))
        opts = o.options(opts, timeout)
        to_me, from_me = [
            checks.splits("alltoall_base", split, tensor, self.size())
            for split, tensor in ((output_splits, output), (input_splits, source))]
        if output_splits or input_splits:
            return self._unequal(output, source, (_counts(to_me, output),
                                                  _counts(from_me, source)), opts)
        flat, copy_back = t.flat_output([output])
        return self._collective(c.ALL_TO_ALL, source.detach().contiguous(), flat, opts,
                                outputs=[output], finish=copy_back)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Options = Default) -> Work:
        if len(outputs) != self.size() or len(inputs) != self.size():
            raise checks.refuse("alltoall", f"pass a list of {self.size()} tensors, one for each "
                                            "rank of the group")
        checks.same_dtype("alltoall", [*outputs, *inputs])
        flat, copy_back = t.flat_output(outputs)
        work = self._unequal(flat, t.flattened(inputs), ([each.numel() for each in outputs],
                                                         [each.numel() for each in inputs]), opts)
        return self._then(work, outputs, copy_back)

    def barrier(self, opts: Options = Default, timeout: Timeout = None) -> Work:
        """Completes after all collective operations that this rank started earlier."""
        opts = o.options(opts, timeout)
        earlier = self.under_way()
        token = torch.zeros(1, dtype=torch.uint8)

        def finish() -> None:
            for work in earlier:
                work.wait()
        return self._collective(c.ALL_REDUCE, token, token, opts, finish=finish)

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Work:
        tensor = checks.single("send", tensors)
        checks.peer("send", to, self.rank(), self.size())
        part = self.messages.send(tensor.detach().contiguous(), to, tag)
        return self.kept(Work([part]))

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        target = checks.single("recv", tensors)
        checks.peer("recv", source, self.rank(), self.size())
        flat, copy_back = t.flat_output([target])
        part = self.messages.receive(flat, source, tag)
        return self.kept(Work([part], [target], copy_back, lambda: source))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        target = checks.single("recvAnysource", tensors)
        if self.size() == 1:
            raise checks.refuse("recvAnysource", "a group of one rank has no other rank")
        self.is_shared = True  # another thread may start this receive
        flat, copy_back = t.flat_output([target])
        part = self.messages.receive_any(flat, tag)
        return self.kept(Work([part], [target], copy_back, part.source))

    # The names of these methods in later PyTorch versions.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # Implementation.

    def _collective(self, kind: int, source: Optional[torch.Tensor], target: torch.Tensor,
                    opts: Options, *, outputs: Tensors = (), finish: CopyBack = None,
                    op: Optional[str] = None, root: int = -1, scale: float = 1.0) -> Work:
        part = self.start(kind, source, target, opts, op=op, root=root, scale=scale)
        work = self._done(outputs or [target], [part] if part else [], finish)
        work.seconds = o.seconds_of(opts) or self.seconds
        return work

    def _reduction(self, kind: int, tensor: torch.Tensor, opts: Options, root: int = -1) -> Work:
        real = as_real(tensor, opts)
        name, op, scale = op_of(opts, real.dtype)
        flat = real.detach().contiguous()
        if name in BITWISE and op is None:
            return self._bitwise(flat, real, opts, None, root)
        copy_back: CopyBack = None
        if flat.data_ptr() != real.data_ptr() and root in (-1, self.rank()):
            copy_back = t.copy_from(flat, [real])
        return self._collective(kind, flat, flat, opts, outputs=[tensor], finish=copy_back, op=op,
                                root=root, scale=scale)

    def _bitwise(self, source: torch.Tensor, output: torch.Tensor, opts: Options,
                 part: Optional[int], root: int = -1) -> Work:
        """Implements bitwise ops, which the library lacks: gathers the data, then combines them.
        part: for reduce_scatter."""
        combine = BITWISE[name_of(opts)]
        rows = source.new_empty((self.size(), source.numel()))

        def finish() -> None:
            total = rows[0]
            for row in rows[1:]:
                total = combine(total, row)
            if part is not None:
                total = total.view(self.size(), -1)[part]
            if root in (-1, self.rank()):
                t.write(output, total)
        return self._collective(c.ALL_GATHER, source, rows, opts, outputs=[output], finish=finish)

    def _several(self, tensors: Tensors, opts: Options) -> Work:
        """As in gloo, each tensor receives the result over all tensors on all ranks."""
        checks.alike("allreduce", tensors, tensors[0])
        combine = COMBINE.get(name_of(opts))
        if combine is None:
            raise errors.Unsupported(f"allreduce: ReduceOp.{name_of(opts)} supports only one "
                                     f"tensor, not {len(tensors)}")
        total = functools.reduce(combine, [tensor.detach() for tensor in tensors]).contiguous()

        def finish() -> None:
            for tensor in tensors:
                t.write(tensor, total)
        return self._then(self._reduction(c.ALL_REDUCE, total, opts), list(tensors), finish)

    def _sparse(self, tensors: Tensors, opts: Options) -> Work:
        """Sums sparse tensors; the sum has the entries of all tensors. If a rank passes several
        tensors, each becomes the total."""
        checks.same_layout("allreduce", tensors, tensors[0])
        checks.match("allreduce", tensors, tensors[0])
        if name_of(opts) != "SUM":
            raise errors.Unsupported("allreduce: unsupported reduction operation: sparse tensors "
                                     "support only ReduceOp.SUM")
        tensor = functools.reduce(torch.add, tensors).coalesce()
        indices, values = tensor.indices(), tensor.values()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size())]
        self.allgather([counts], [torch.tensor([indices.shape[1]])], Within)
        most = max(int(count) for count in counts)
        gathered = []
        for part in (indices.t().contiguous(), values):
            padded = part.new_zeros((most, *part.shape[1:]))
            padded[:part.shape[0]] = part
            rows = part.new_empty((self.size(), *padded.shape))
            self._allgather_base(rows, padded, Within)
            gathered.append(torch.cat([rows[rank, :int(count)]
                                       for rank, count in enumerate(counts)]))
        total = torch.sparse_coo_tensor(gathered[0].t(), gathered[1], tensor.shape,
                                        **_UNCHECKED).coalesce()
        with torch.no_grad():
            for each in tensors:
                each.copy_(total)  # not detach(), which does not share sparse contents
        return self._done(list(tensors))

    def _unequal(self, output: torch.Tensor, source: torch.Tensor,
                 counts: Tuple[List[int], List[int]], opts: Options) -> Work:
        """counts: the numbers of elements to receive from each rank, and to send to each rank. Pads
        all blocks to the size of the largest block on any rank."""
        to_me, from_me = counts
        largest = torch.tensor([max(to_me + from_me)])
        self._collective(c.ALL_REDUCE, largest, largest, Within, op="max")
        most = int(largest)
        blocks, received = (source.new_zeros((self.size(), most)) for _ in range(2))
        for block, part in zip(blocks, source.detach().reshape(-1).split(from_me)):
            block[:part.numel()] = part

        def finish() -> None:
            parts = [row[:count] for row, count in zip(received, to_me)]
            t.write(output, torch.cat(parts))
        return self._collective(c.ALL_TO_ALL, blocks, received, opts, outputs=[output],
                                finish=finish)

    def _all(self, started: Iterable[Work]) -> Work:
        """Combines several Works into one."""
        works = list(started)
        parts = [part for work in works for part in work.contents()[0]]
        outputs = [output for work in works for output in work.contents()[1]]

        def finish() -> None:
            for work in works:
                work.complete()
        return self._done(outputs, parts, finish)

    def _then(self, work: Work, outputs: Tensors, copy_back: CopyBack) -> Work:
        """A Work with other outputs. Its copies run after the first Work completes."""
        def finish() -> None:
            work.complete()
            if copy_back is not None:
                copy_back()
        return self._done(outputs, work.contents()[0], finish)

    def _done(self, outputs: Tensors, parts: Sequence[Any] = (), finish: CopyBack = None) -> Work:
        work = Work(parts, outputs, finish)
        work.completer = self.completer
        if not parts:
            work.wait()
        return self.kept(work, is_collective=True)


def _counts(rows: Sequence[int], tensor: torch.Tensor) -> List[int]:
    """Converts the number of rows in each block to a number of elements."""
    row = tensor[0].numel() if tensor.shape[0] else 0
    return [count * row for count in rows]


profiling.watch(ProcessGroup)
profiling.leave_alone(ProcessGroup, Base, Work)
