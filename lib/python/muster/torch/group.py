# SPDX-License-Identifier: Apache-2.0
"""The process group: torch.distributed's operations in terms of the communicator's."""
import collections
from ctypes import sizeof

import torch
import torch.distributed as dist

from .. import _library as c
from .. import errors
from . import tensors as t
from .lanes import Lanes
from .monitored import MonitoredBarrier
from .work import Completer, CollectiveWork, Work

_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
_NOTHING = c.CBuffer(None, 0, 7, c.HOST)
_OPS = {"SUM": "sum", "PRODUCT": "prod", "MAX": "max", "MIN": "min", "AVG": "avg",
        "PREMUL_SUM": "premul_sum"}
_BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
_BOOL = {"SUM": "max", "PRODUCT": "min", "MAX": "max", "MIN": "min", "BAND": "min", "BOR": "max"}
# PyTorch's C++ once forgot the Python part of Works, and then waited for ever.
_KEPT = 256 if _VERSION < (2, 6) else 0

# The indices come from tensors; without the word PyTorch 2 warns that it does not check them.
_UNCHECKED = {} if _VERSION < (2, 0) else {"check_invariants": False}


class _Options:
    """Where PyTorch hands in none."""

    timeout = None
    asyncOp = False
    rootRank = 0


class ProcessGroup(dist.ProcessGroup):
    """Made by init_process_group and new_group with the back end "muster". Operations are called
    by one thread at a time, in the same order on all ranks."""

    supports_coalescing = False
    supports_splitting = False

    def __init__(self, comm, served, store=None, make_lane=None):
        super().__init__(comm.rank, comm.size)
        self._comm = comm
        self._served = served  # the store that this rank serves the group, if it does
        self._monitored = MonitoredBarrier(store, comm.rank, comm.size)
        self._lanes = Lanes(comm.rank, make_lane)
        self._completer = Completer()
        self._works = collections.deque()
        self._count = 0
        self._name = "muster"

    # What PyTorch asks of a group.

    def getBackendName(self):
        return "muster"

    name = _get_backend_name = getBackendName

    @property
    def group_name(self):
        return self._name

    def _set_group_name(self, name):
        self._name = name

    def _get_backend(self, device):
        return self

    def _get_sequence_number_for_group(self):
        return self._count

    def _set_sequence_number_for_group(self):
        pass

    def abort(self):
        """Ends all operations of all ranks."""
        self._lanes.abort("the process group was aborted")
        self._comm.abort("the process group was aborted")

    def shutdown(self):
        """Leaves, after operations under way."""
        self._completer.close()
        self._lanes.close()
        self._comm.close()
        if self._served is not None:
            self._served.close()

    # Operations.

    def allreduce(self, tensors, opts=_Options):
        if len(tensors) == 1 and tensors[0].layout is torch.sparse_coo:
            return self._sparse(tensors[0], opts)
        return self._reduction(c.ALL_REDUCE, t.only(tensors, "all_reduce"), opts)

    def allreduce_coalesced(self, tensors, opts=_Options):
        t.check(tensors)
        flat, bring = t.joined(tensors), None
        if flat.data_ptr() != tensors[0].data_ptr():
            _, bring = _scattered(flat, tensors)
        work = self._reduction(c.ALL_REDUCE, flat, opts)
        return self._with(work, tensors, bring)

    def reduce(self, tensors, opts):
        return self._reduction(c.REDUCE, t.only(tensors, "reduce"), opts, opts.rootRank)

    def broadcast(self, tensors, opts):
        tensor = t.only(tensors, "broadcast")
        flat = tensor.detach().contiguous()
        bring = None
        if flat.data_ptr() != tensor.data_ptr():
            def bring():
                tensor.detach().copy_(flat)
        return self._collective(c.BROADCAST, None, flat, opts, outputs=tensors, finish=bring,
                                root=opts.rootRank)

    def allgather(self, output_lists, inputs, opts=_Options):
        source = t.only(inputs, "all_gather").detach().contiguous()
        outputs = self._one_each(output_lists, source, "all_gather")
        flat, bring = t.room_for(outputs)
        return self._collective(c.ALL_GATHER, source, flat, opts, outputs=outputs, finish=bring)

    def _allgather_base(self, output, source, opts=_Options):
        t.check((output, source))
        flat, bring = t.room_for([output])
        return self._collective(c.ALL_GATHER, source.detach().contiguous(), flat, opts,
                                outputs=[output], finish=bring)

    def allgather_coalesced(self, output_lists, inputs, opts=_Options):
        by_tensor = [[outputs[i] for outputs in output_lists] for i in range(len(inputs))]
        return self._all(self.allgather([outputs], [source], opts)
                         for outputs, source in zip(by_tensor, inputs))

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=_Options):
        return self._all(self._allgather_base(output, source, opts)
                         for output, source in zip(outputs, inputs))

    def gather(self, output_lists, inputs, opts):
        source = t.only(inputs, "gather").detach().contiguous()
        outputs = []
        if self.rank() == opts.rootRank:
            outputs = self._one_each(output_lists, source, "gather")
        flat, bring = (t.room_for(outputs) if outputs
                       else (source.new_empty(source.numel() * self.size()), None))
        return self._collective(c.ALL_GATHER, source, flat, opts, outputs=outputs, finish=bring)

    def scatter(self, outputs, input_lists, opts):
        target = t.only(outputs, "scatter")
        count = target.numel()
        if self.rank() == opts.rootRank:
            flat = t.joined(self._one_each(input_lists, target, "scatter"))
        else:
            flat = target.new_empty(count * self.size())
        mine = flat[self.rank() * count:(self.rank() + 1) * count]

        def bring():
            target.detach().copy_(mine.view(target.shape))
        return self._collective(c.BROADCAST, None, flat, opts, outputs=outputs, finish=bring,
                                root=opts.rootRank)

    def reduce_scatter(self, outputs, input_lists, opts=_Options):
        target = t.only(outputs, "reduce_scatter")
        parts = self._one_each(input_lists, target, "reduce_scatter")
        return self._reduce_scatter_base(target, t.joined(parts), opts)

    def _reduce_scatter_base(self, output, source, opts=_Options):
        t.check((output, source))
        name, op, scale = _op_of(opts, source.dtype)
        source = source.detach().contiguous()
        if name in _BITWISE and op is None:
            return self._bitwise(source, output, opts, self.rank())
        flat, bring = t.room_for([output])
        return self._collective(c.REDUCE_SCATTER, source, flat, opts, outputs=[output],
                                finish=bring, op=op, scale=scale)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=_Options):
        return self._all(self._reduce_scatter_base(output, source, opts)
                         for output, source in zip(outputs, inputs))

    def alltoall_base(self, output, source, output_splits, input_splits, opts=_Options):
        t.check((output, source))
        if output_splits or input_splits:
            return self._unequal(output, source, (output_splits, input_splits), opts)
        flat, bring = t.room_for([output])
        return self._collective(c.ALL_TO_ALL, source.detach().contiguous(), flat, opts,
                                outputs=[output], finish=bring)

    def alltoall(self, outputs, inputs, opts=_Options):
        t.check(outputs)
        t.check(inputs)
        flat, bring = t.room_for(outputs)
        work = self._unequal(flat, t.joined(inputs), ([each.numel() for each in outputs],
                                                      [each.numel() for each in inputs]), opts)
        return self._with(work, outputs, bring)

    def barrier(self, opts=_Options):
        token = torch.zeros(1, dtype=torch.uint8)
        return self._collective(c.ALL_REDUCE, token, token, opts)

    def send(self, tensors, to, tag=0):
        source = t.only(tensors, "send").detach().contiguous()
        return self._transfer(c.SEND, source, to, tag, Work)

    def recv(self, tensors, source, tag=0):
        target = t.only(tensors, "recv")
        flat, bring = t.room_for([target])
        return self._transfer(c.RECV, flat, source, tag,
                              lambda parts: Work(parts, [target], bring, source))

    def recv_anysource(self, tensors, tag=0):
        raise errors.Unsupported("muster receives from a rank that is named: give src to recv")

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        if self.size() > 1:
            self._monitored.meet(timeout, wait_all_ranks)

    # The names of later versions.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # How.

    def _collective(self, kind, source, target, opts, *, outputs=(), finish=None, op=None, root=-1,
                    scale=1.0):
        """Starts it, or does it where the caller is going to wait at once."""
        seen = t.moved if op is None else t.summed
        seconds = _seconds(opts)
        is_async = getattr(opts, "asyncOp", True)
        call = c.CCall(sizeof(c.CCall), kind, c.OPS.get(op, 0), root, 1 if is_async else 0,
                       _NOTHING if source is None else seen(source), seen(target),
                       int(seconds * 1e9), scale, None)
        self._count += 1
        part = self._comm.start(call, None, (source, target))
        work = CollectiveWork([part] if part else [], outputs or [target], finish)
        work.completer = self._completer
        if not part:
            work.wait()
        return self._keep(work)

    def _reduction(self, kind, tensor, opts, root=-1):
        if tensor.is_complex():
            if _name_of(opts) != "SUM":
                raise errors.Unsupported("complex numbers are summed only")
            tensor = torch.view_as_real(tensor)
        name, op, scale = _op_of(opts, tensor.dtype)
        flat = tensor.detach().contiguous()
        if name in _BITWISE and op is None:
            return self._bitwise(flat, tensor, opts, None, root)
        bring = None
        if flat.data_ptr() != tensor.data_ptr() and root in (-1, self.rank()):
            def bring():
                tensor.detach().copy_(flat)
        return self._collective(kind, flat, flat, opts, outputs=[tensor], finish=bring, op=op,
                                root=root, scale=scale)

    def _bitwise(self, source, output, opts, part, root=-1):
        """The library has sums and extremes; these gather first. part: of reduce_scatter."""
        name = _name_of(opts)
        rows = source.new_empty((self.size(), source.numel()))

        def bring():
            total = rows[0]
            for row in rows[1:]:
                total = _BITWISE[name](total, row)
            if part is not None:
                total = total.view(self.size(), -1)[part]
            if root in (-1, self.rank()):
                output.detach().copy_(total.view(output.shape))
        return self._collective(c.ALL_GATHER, source, rows, opts, outputs=[output], finish=bring)

    def _sparse(self, tensor, opts):
        """The sum of sparse tensors has the entries of all of them."""
        if _name_of(opts) != "SUM":
            raise errors.Unsupported("sparse tensors are summed only")
        tensor_in = tensor.coalesce()
        indices, values = tensor_in.indices(), tensor_in.values()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size())]
        self.allgather([counts], [torch.tensor([indices.shape[1]])]).wait()
        most = max(int(count) for count in counts)
        gathered = []
        for part in (indices.t().contiguous(), values):
            padded = part.new_zeros((most, *part.shape[1:]))
            padded[:part.shape[0]] = part
            rows = part.new_empty((self.size(), *padded.shape))
            self._allgather_base(rows, padded).wait()
            gathered.append(torch.cat([rows[rank, :int(count)]
                                       for rank, count in enumerate(counts)]))
        total = torch.sparse_coo_tensor(gathered[0].t(), gathered[1], tensor.shape,
                                        **_UNCHECKED).coalesce()
        with torch.no_grad():
            tensor.copy_(total)  # not of detach(): sparse contents are not shared
        return self._done([tensor])

    def _unequal(self, output, source, splits, opts):
        """Blocks as large as the largest of all, of which only the beginnings count."""
        to_me, from_me = [_counts(split, tensor, self.size())
                          for split, tensor in zip(splits, (output, source))]
        largest = torch.tensor([max(to_me + from_me)])
        most_opts = _Options()
        self._collective(c.ALL_REDUCE, largest, largest, most_opts, op="max")
        most = int(largest)
        blocks, landed = (source.new_zeros((self.size(), most)) for _ in range(2))
        for block, part in zip(blocks, source.detach().reshape(-1).split(from_me)):
            block[:part.numel()] = part

        def bring():
            parts = [row[:count] for row, count in zip(landed, to_me)]
            output.detach().copy_(torch.cat(parts).view(output.shape))
        return self._collective(c.ALL_TO_ALL, blocks, landed, opts, outputs=[output], finish=bring)

    def _transfer(self, kind, tensor, peer, tag, make):
        if tag != 0:
            return self._keep(make([self._lanes.start(kind, tensor, peer, tag)]))
        source, target = ((t.moved(tensor), _NOTHING) if kind == c.SEND
                          else (_NOTHING, t.moved(tensor)))
        call = c.CCall(sizeof(c.CCall), kind, 0, peer, 1, source, target, 0, 1.0, None)
        return self._keep(make([self._comm.start(call, None, (tensor,))]))

    def _one_each(self, lists, like, what):
        """The list of `size` tensors that are all like one."""
        if len(lists) != 1 or len(lists[0]) != self.size():
            raise errors.InvalidArgument(f"{what}: a list of {self.size()} tensors is wanted")
        t.check(lists[0])
        t.same(lists[0], like.numel(), like.dtype, what)
        return lists[0]

    def _all(self, works):
        """One Work for several."""
        works = list(works)
        outputs = [output for work in works for output in work._outputs]
        parts = [part for work in works for part in work._parts]
        finishes = [work._over for work in works]
        return self._done(outputs, parts, lambda: [finish() for finish in finishes])

    def _with(self, work, outputs, finish):
        """The same Work with other outputs and something after it."""
        before = work._over
        return self._done(outputs, list(work._parts), lambda: (before(), finish and finish()))

    def _done(self, outputs, parts=(), finish=None):
        work = CollectiveWork(parts, outputs, finish)
        work.completer = self._completer
        if not parts:
            work.wait()
        return self._keep(work)

    def _keep(self, work):
        works = self._works
        while len(works) > _KEPT and works[0].is_completed():
            works.popleft()
        works.append(work)
        return work


def _seconds(opts):
    """Of a call; those that PyTorch does not set are negative or half an hour."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout is not None else 0
    return max(0, seconds)


def _name_of(opts):
    op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
    op = getattr(op, "op", op)
    return getattr(op, "name", None) or str(op).rpartition(".")[2]


def _op_of(opts, dtype):
    """(PyTorch's name, ours, scale); ours is None for what is done by gathering."""
    name = _name_of(opts)
    ours = (_BOOL if dtype is torch.bool else _OPS).get(name)
    if ours is None and (name not in _BITWISE or dtype.is_floating_point):
        raise errors.Unsupported(f"muster has no ReduceOp.{name} for {dtype}")
    if ours == "premul_sum":
        factor = getattr(opts.reduceOp, "factor", None)
        if factor is None:
            raise errors.Unsupported("PREMUL_SUM: this PyTorch does not tell the factor")
        return name, ours, float(factor)
    return name, ours, 1.0


def _counts(split, tensor, size):
    """Elements of each block; splits count along the first dimension."""
    rows = list(split) if split else [tensor.shape[0] // size] * size
    if len(rows) != size or sum(rows) != tensor.shape[0]:
        raise errors.InvalidArgument(f"all_to_all: splits {rows} do not add up to the first extent "
                                     f"of {tuple(tensor.shape)} over {size} ranks")
    row = tensor[0].numel() if tensor.shape[0] else 0
    return [count * row for count in rows]


def _scattered(flat, tensors):
    """(flat, what brings its contents to the tensors)."""
    def bring():
        at = 0
        for tensor in tensors:
            tensor.detach().copy_(flat[at:at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()
    return flat, bring
