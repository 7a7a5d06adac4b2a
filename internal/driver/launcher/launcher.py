"""Launches the kernels of this folder on tensors that live on the GPU.

    import importlib.util, sys                      # or put the folder on sys.path
    from launcher import load
    k = load()                                      # launch.json and the cubin beside this file
    k(A, B, C)                                      # torch tensors, or anything with data_ptr() and shape

Arguments are those of the function, in its order: buffers as tensors, scalars
as numbers. Work is queued on the given stream (torch's current one when torch
is loaded); nothing waits. Needs Python and the CUDA driver alone.
"""
import ctypes
import json
import os
import re
import struct
import sys

_FORMATS = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
            "float16": "e", "float32": "f", "float64": "d", "bool": "?"}
_BITS = re.compile(r"(?:float|int|uint|bfloat)(\d+)")


class CUDAError(RuntimeError):
    pass


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint8 * 64)]


class _Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("smem", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attrs", ctypes.c_void_p), ("count", ctypes.c_uint)]


class _Driver:
    def __init__(self):
        name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
        self.lib = ctypes.CDLL(os.environ.get("LOWERTRACE_LIBCUDA", name))
        self("cuInit", 0)

    def __call__(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise CUDAError("%s: %s" % (name, (text.value or b"error %d" % code).decode()))

    def context(self):
        """Makes the device's primary context current unless one is."""
        ctx = ctypes.c_void_p()
        self("cuCtxGetCurrent", ctypes.byref(ctx))
        if not ctx.value:
            dev = ctypes.c_int()
            self("cuDeviceGet", ctypes.byref(dev), 0)
            self("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), dev)
            self("cuCtxSetCurrent", ctx)


def _pointer(x):
    if hasattr(x, "data_ptr"):
        return x.data_ptr()
    if hasattr(x, "__cuda_array_interface__"):
        return x.__cuda_array_interface__["data"][0]
    return int(x)


def _itemsize(dtype):
    m = _BITS.match(dtype)
    return max(int(m.group(1)) // 8, 1) if m else 1


def _pack(value, dtype):
    if dtype == "bfloat16":
        bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
    if dtype not in _FORMATS:
        raise TypeError("a scalar of type %s cannot be passed" % dtype)
    return struct.pack("<" + _FORMATS[dtype], value)


class Kernel:
    """The function of a launch.json. Call it with the function's arguments."""

    def __init__(self, folder):
        with open(os.path.join(folder, "launch.json")) as f:
            self.spec = json.load(f)
        if self.spec["version"] != 1:
            raise ValueError("launch.json has version %s; this launcher reads 1" % self.spec["version"])
        with open(os.path.join(folder, self.spec["cubin"]), "rb") as f:
            self.image = f.read()
        self.cuda = None
        self.functions = {}
        self.workspaces = {}  # name: (bytes, address), kept for the next call

    def _load(self):
        self.cuda = _Driver()
        self.cuda.context()
        module = ctypes.c_void_p()
        self.cuda("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(self.image))
        for launch in self.spec["launches"]:
            f = ctypes.c_void_p()
            self.cuda("cuModuleGetFunction", ctypes.byref(f), module, launch["kernel"].encode())
            self.functions[launch["kernel"]] = f

    def _env(self, args):
        spec, env = self.spec, {}
        if len(args) != len(spec["args"]):
            raise TypeError("%s takes %d arguments (%s), got %d" % (spec["name"], len(spec["args"]), ", ".join(spec["args"]), len(args)))
        named = dict(zip(spec["args"], args))
        for name in spec.get("scalars", {}):
            env[name] = named[name]
        for name, sym in spec.get("symbols", {}).items():
            t = named[sym["buffer"]]
            if "stride" in sym:
                env[name] = int(t.stride(sym["stride"]) if callable(getattr(t, "stride", None)) else t.strides[sym["stride"]])
            else:
                env[name] = int(t.shape[sym["dim"]])
        return named, env

    def _size(self, x, env):
        if isinstance(x, int):
            return x
        scope = {k: int(v) for k, v in env.items() if isinstance(v, (int, bool))}
        return int(eval(compile(x, "launch.json", "eval"), {"__builtins__": {}, "min": min, "max": max}, scope))

    def _check(self, named, env):
        for name, b in self.spec["buffers"].items():
            t = named.get(name)
            if t is None or not hasattr(t, "shape"):
                continue
            want = tuple(self._size(s, env) for s in b["shape"])
            if tuple(t.shape) != want:
                raise ValueError("%s has shape %s, expected %s" % (name, tuple(t.shape), want))

    def _address(self, p, named):
        return _pointer(named[p["buffer"]])

    def _tensor_map(self, p, named, env):
        def arr(kind, values):
            return (kind * len(values))(*values)
        u32, u64 = ctypes.c_uint32, ctypes.c_uint64
        raw = ctypes.create_string_buffer(128 + 64)
        at = (ctypes.addressof(raw) + 63) // 64 * 64
        n = len(p["gdim"])
        gdim = arr(u64, [self._size(x, env) for x in p["gdim"]])
        strides = arr(u64, [self._size(x, env) for x in p["gstride_all"][1:]] or [0])
        address = u64(self._address(p, named) + self._size(p.get("byte_offset", 0), env))
        tail = [p["interleave"], p["swizzle"], p["l2"], p["oob"]]
        if p.get("mode", "tiled") == "tiled":
            self.cuda("cuTensorMapEncodeTiled", ctypes.c_void_p(at), p["dtype"], n, address, gdim, strides, arr(u32, p["box"]), arr(u32, p["estride"]), *tail)
        else:
            i32 = ctypes.c_int32
            self.cuda("cuTensorMapEncodeIm2col", ctypes.c_void_p(at), p["dtype"], n, address, gdim, strides, arr(i32, p["lower"]), arr(i32, p["upper"]),
                      p["channels"], p["pixels"], arr(u32, p["estride"]), *tail)
        return raw, at

    def _workspace(self, named, env):
        for name, b in self.spec["buffers"].items():
            if b.get("index") is not None:
                continue
            n = _itemsize(b["dtype"])
            for s in b["shape"]:
                n *= self._size(s, env)
            have, address = self.workspaces.get(name, (-1, 0))
            if have < n:
                p = ctypes.c_uint64()
                self.cuda("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(max(n, 1)))
                address = p.value  # a smaller one stays allocated: queued work may still use it
                self.workspaces[name] = (n, address)
            named[name] = address

    def __call__(self, *args, stream=None):
        if self.cuda is None:
            self._load()
        if stream is None and "torch" in sys.modules:
            stream = sys.modules["torch"].cuda.current_stream().cuda_stream
        named, env = self._env(args)
        self._check(named, env)
        self._workspace(named, env)
        for launch in self.spec["launches"]:
            grid = [self._size(x, env) for x in launch["grid"]]
            if 0 in grid:
                continue
            self._launch(launch, grid, named, env, stream)

    def _launch(self, launch, grid, named, env, stream):
        f = self.functions[launch["kernel"]]
        keep, slots = [], []
        for p in launch["params"]:
            if "tma" in p:
                raw, at = self._tensor_map(p, named, env)
                keep.append(raw)
                slots.append(at)
                continue
            if "buffer" in p:
                data = struct.pack("<Q", self._address(p, named) + self._size(p.get("byte_offset", 0), env))
            else:
                v = p["scalar"]
                if isinstance(v, str):
                    v = env[v] if v in env else self._size(v, env)
                data = _pack(v, p["dtype"])
            raw = ctypes.create_string_buffer(data, 8)
            keep.append(raw)
            slots.append(ctypes.addressof(raw))
        smem = self._size(launch["smem"], env)
        if smem > 48 << 10:
            self.cuda("cuFuncSetAttribute", f, 8, smem)
        attrs = []
        if launch.get("cluster"):
            a = _Attribute(id=4)
            struct.pack_into("<3I", a.value, 0, *launch["cluster"])
            attrs.append(a)
        if launch.get("cooperative"):
            a = _Attribute(id=2)
            struct.pack_into("<i", a.value, 0, 1)
            attrs.append(a)
        if launch.get("programmatic"):
            a = _Attribute(id=6)
            struct.pack_into("<i", a.value, 0, 1)
            attrs.append(a)
        table = (_Attribute * len(attrs))(*attrs)
        block = [self._size(x, env) for x in launch["block"]]
        cfg = _Config(grid=tuple(grid), block=tuple(block), smem=smem, stream=stream or 0,
                      attrs=ctypes.addressof(table) if attrs else 0, count=len(attrs))
        params = (ctypes.c_void_p * len(slots))(*slots)
        self.cuda("cuLaunchKernelEx", ctypes.byref(cfg), f, params, None)


def load(folder=None):
    """The kernel of a folder that `lowertrace build` wrote; this one by default."""
    return Kernel(folder or os.path.dirname(os.path.abspath(__file__)))
