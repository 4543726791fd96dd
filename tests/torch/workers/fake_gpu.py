# SPDX-License-Identifier: Apache-2.0
"""torch tensors on the GPUs of the fake CUDA driver (tests/nccl/fakes), for PyTorch without a GPU.

An OnGpu reports that it is on cuda:N; its memory belongs to the fake driver. For the driver, each
operation on it is a kernel on torch's current stream, which declares what it reads and writes.
Memory uses that no stream, event or wait of the host orders terminate the program. The kernel
computes only when its stream reaches it. The host does not learn that it has completed, unless it
requests values as in PyTorch (.cpu(), .item()). Memory is managed as in PyTorch: freed memory
returns to its stream and is reused there.

Autograd, modules and optimizers are PyTorch's own, and hooks run in the engine's thread. Simulated
are streams, torch.cuda.current_stream and synchronize, from_dlpack, and the engine's use of
streams: the whole backward pass, including hooks, runs on the stream on which the loss was
computed, and the calling stream waits for it at the end. For the engine the device is a Python
backend (private use 1); for a CUDA device the engine would use the real runtime.
"""
import collections
import contextlib
import ctypes
import os
import threading

import torch
import torch.utils.backend_registration
from torch.utils import _pytree

from muster import dlpack, dtypes

if hasattr(torch._C, "_cuda_getDeviceCount"):
    torch._C._cuda_getDeviceCount()  # once, before there is a fake that it could find
ENGINES_NAME = "fakegpu"
torch.utils.backend_registration._setup_privateuseone_for_python_backend(ENGINES_NAME)
cuda = ctypes.CDLL(os.environ["MUSTER_CUDA_LIBRARY"])
libc = ctypes.CDLL(None)


class Span(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("write", ctypes.c_int)]


def check(result, what):
    if result != 0:
        raise RuntimeError(f"{what}: CUresult {result}")


def driver(name):
    """A function by its name in cuda.h, where a macro selects the newest version."""
    return getattr(cuda, name + "_v2", None) or getattr(cuda, name)


class Device:
    """Its context, and the memory that PyTorch's allocator keeps for each stream."""

    def __init__(self, index):
        self.index, self.context = index, ctypes.c_void_p()
        self.free = collections.defaultdict(list)
        check(cuda.cuInit(0), "cuInit")
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), index), "a context")

    def call(self, name, *arguments):
        """A driver function, with this device as the thread's current one."""
        driver("cuCtxPushCurrent")(self.context)
        try:
            check(driver(name)(*arguments), name)
        finally:
            driver("cuCtxPopCurrent")(ctypes.byref(ctypes.c_void_p()))

    def alloc(self, size):
        made = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(made), ctypes.c_size_t(size))
        return made.value


class Stream:
    """The parts of a torch.cuda.Stream that are used here."""

    def __init__(self, device=0, default=False):
        self.device, self._handle = device, ctypes.c_void_p()
        if not default:
            devices[device].call("cuStreamCreateWithPriority", ctypes.byref(self._handle), 1, 0)
        self.cuda_stream = self._handle.value or 0
        streams.append(self)

    def wait_stream(self, other):
        event = ctypes.c_void_p()
        call = devices[self.device].call
        call("cuEventCreate", ctypes.byref(event), 2)
        call("cuEventRecord", event, other._handle)
        call("cuStreamWaitEvent", self._handle, event, 0)
        call("cuEventDestroy", event)

    def synchronize(self):
        devices[self.device].call("cuStreamSynchronize", self._handle)

    def launch(self, what, spans, body=libc.getpid, data=None):
        """A kernel that uses these tensors' memory: (tensor, whether it writes) each."""
        declared = (Span * (len(spans) + 1))(*(Span(*span_of(t.inner), w) for t, w in spans))
        devices[self.device].call("muster_fake_launch", self._handle, what.encode(),
                                  ctypes.cast(body, ctypes.c_void_p), data, declared)

    def run(self, what, spans):
        """The same, and waits until the stream has reached it. The host does not learn that it has
        completed."""
        if not hasattr(_mine, "arrived"):
            _mine.arrived = ctypes.create_string_buffer(64)
            libc.sem_init(_mine.arrived, 0, 0)
        self.launch(what, spans, libc.sem_post, ctypes.cast(_mine.arrived, ctypes.c_void_p))
        while libc.sem_wait(_mine.arrived) != 0:
            pass  # a signal


def synchronize(device=None):
    """Waits until torch's streams on the device are idle. Other streams are unknown here."""
    for known in streams:
        if known.device == index_of(device):
            known.synchronize()


def index_of(device):
    index = getattr(device, "index", device)
    return _current_device if index is None else index


_mine = threading.local()
streams = []
devices = {index: Device(index) for index in range(int(os.environ["MUSTER_FAKE_CUDA_DEVICES"]))}
_current = {index: Stream(index, default=True) for index in devices}
_current_device = 0
_raised = []  # from a hook of this backward pass
_of_backward = None  # that of the forward pass, in the engine's threads


def current_stream(device=None):
    index = index_of(device)
    if _of_backward is not None and threading.current_thread() is not threading.main_thread():
        if index == _of_backward.device:
            return _of_backward
    return _current[index]


@contextlib.contextmanager
def stream(used):
    """Like torch.cuda.stream: also makes its device current."""
    global _current_device
    before, device = _current[used.device], _current_device
    _current[used.device], _current_device = used, used.device
    try:
        yield
    finally:
        _current[used.device], _current_device = before, device


@contextlib.contextmanager
def current_device(index):
    global _current_device
    before, _current_device = _current_device, index
    try:
        yield
    finally:
        _current_device = before


class Block:
    """Memory from the allocator; returned to its stream when no tensor refers to it any more."""

    def __init__(self, of, size):
        self.device, self.stream = of.device, of
        free = devices[of.device].free[of.cuda_stream, size]
        self.address = free.pop() if free else devices[of.device].alloc(size)
        self.kept = free

    def __del__(self):
        self.kept.append(self.address)


class Foreign:
    """Memory of another library, passed in a capsule."""

    def __init__(self, address, device, capsule):
        self.address, self.device, self.capsule = address, device, capsule


def plain(address, shape, dtype):
    """Device memory as a tensor on the host."""
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).view(shape)


def span_of(inner):
    """Start and size in bytes of a tensor with any strides."""
    if inner.numel() == 0:
        return inner.data_ptr(), 0
    last = sum((size - 1) * stride for size, stride in zip(inner.shape, inner.stride()))
    return inner.data_ptr(), (last + 1) * inner.element_size()


class OnGpu(torch.Tensor):
    """inner: the same memory as a tensor on the host. block: keeps the memory alive."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, block):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(),
                                                   dtype=inner.dtype, device=ENGINES_NAME + ":0")
        made.inner, made.block = inner, block
        return made

    @property
    def device(self):
        return torch.device("cuda", self.block.device)

    def data_ptr(self):
        return self.inner.data_ptr()

    def backward(self):
        global _of_backward
        caller, _of_backward = current_stream(self.device), self.block.stream
        _of_backward.wait_stream(caller)
        try:
            super().backward()
            caller.wait_stream(_of_backward)
            if _raised:
                raise _raised.pop()
        finally:
            _of_backward = None

    def register_post_accumulate_grad_hook(self, hook):
        """A hook that raises ends the backward pass, here by skipping the remaining hooks. In a
        real Python backend it would terminate the process."""
        def called(p):
            try:
                if not _raised:
                    hook(p)
            except Exception as error:
                _raised.append(error)
        return super().register_post_accumulate_grad_hook(called)

    def __repr__(self):
        return f"OnGpu({list(self.shape)}, {self.dtype}, {self.device})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return Kernel(func, args, kwargs or {}).run()


class Kernel:
    """One operation."""

    def __init__(self, func, args, kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs
        self.tensors = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, OnGpu)]
        self.device = self.tensors[0].device
        self.stream = current_stream(self.device)
        others = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and
                  not (isinstance(x, OnGpu) and x.device == self.device)]
        if any(x.dim() > 0 or isinstance(x, OnGpu) for x in others) and "copy" not in func.__name__:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")

    def run(self):
        is_view = any(r.alias_info is not None and not r.alias_info.is_write
                      for r in self.func._schema.returns)
        if not is_view:
            self.stream.run(self.func.__name__, self.spans())
        kwargs = dict(self.kwargs)
        to = kwargs.get("device")
        if to is not None:
            kwargs["device"] = "cpu"
        args, kwargs = _pytree.tree_map_only(OnGpu, lambda x: x.inner, (self.args, kwargs))
        result = self.func(*args, **kwargs)
        if (to is not None and to.type == "cpu") or not self.has_tensors(result):
            self.stream.synchronize()  # PyTorch waits for values
            return result
        return _pytree.tree_map_only(torch.Tensor, self.shown, result)

    def has_tensors(self, result):
        return any(isinstance(x, torch.Tensor) for x in _pytree.tree_leaves(result))

    def spans(self):
        written = []
        named = dict(zip((a.name for a in self.func._schema.arguments), self.args))
        named.update(self.kwargs)
        for argument in self.func._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                written += _pytree.tree_leaves(named.get(argument.name))
        return [(x, any(x is w for w in written)) for x in self.tensors]

    def shown(self, inner):
        """The result of an operation: one of its arguments, a view of one, or new memory."""
        for x in self.tensors:
            if inner is x.inner:
                return x
            if inner.untyped_storage().data_ptr() == x.inner.untyped_storage().data_ptr() != 0:
                return OnGpu(inner, x.block)
        return on_gpu(inner, self.device.index)


def on_gpu(tensor, device):
    """A copy of a tensor on the host."""
    where = current_stream(device)
    tensor = tensor.detach()
    block = Block(where, max(512, (tensor.nbytes + 511) // 512 * 512))
    inner = plain(block.address, (tensor.numel(),), tensor.dtype)
    inner = inner.as_strided(tensor.size(), tensor.stride()) if is_dense(tensor) else \
        inner.view(tensor.shape)
    made = OnGpu(inner, block)
    where.run("a copy to the GPU", [(made, True)])
    inner.copy_(tensor)
    return made


def is_dense(tensor):
    return span_of(tensor)[1] == tensor.nbytes


def move(module, device):
    """Does what module.to(device) does for a module on the host."""
    for part in module.modules():
        for name, p in part._parameters.items():
            if p is not None:
                part._parameters[name] = torch.nn.Parameter(on_gpu(p, device), p.requires_grad)
        for name, buffer in part._buffers.items():
            part._buffers[name] = on_gpu(buffer, device)
    return module


def from_dlpack(capsule):
    """Like torch.utils.dlpack.from_dlpack, for capsules from muster."""
    tensor, _ = dlpack.read(capsule)
    if tensor.device_type != dlpack.CUDA:
        return _host_from_dlpack(capsule)
    name = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    dtype = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16,
             "f16": torch.float16, "i32": torch.int32, "i64": torch.int64}[name]
    inner = plain(tensor.data, dlpack.shape(tensor), dtype)
    return OnGpu(inner, Foreign(tensor.data, tensor.device_id, capsule))


_host_from_dlpack = torch.utils.dlpack.from_dlpack
torch.utils.dlpack.from_dlpack = from_dlpack
torch.cuda.current_stream, torch.cuda.synchronize = current_stream, synchronize
torch.cuda.is_initialized = lambda: True
