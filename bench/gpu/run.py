#!/usr/bin/env python3
"""Runs a bundle of kernels on a GPU: is each right, and how fast is it?

    python3 run.py                 every case: one row each, a summary, results.json in $OUT or beside this file
    python3 run.py --dry           no GPU: launch descriptions against arrays and cubins
    python3 run.py --only REGEX    cases whose id matches; --skip REGEX leaves out
    python3 run.py --no-time       right or wrong only
    python3 run.py --inline        in this process, without guards: what compute-sanitizer and profilers need

A bundle is the folder that `make bench-gpu-bundle` fills: this script, cases.json, cases/ID/{launch.json, kernel.cu,
*.cubin} and data/KERNEL.{json,npz}. Needs numpy and the CUDA driver's libcuda.so.1, nothing else.

Each case runs in a worker process, so that a crash or a hang loses that case alone. Outputs are filled with 0xFF before
a run, so what a kernel leaves unwritten is NaN or -1; every buffer lies between two guards; inputs are compared
afterwards; every case runs twice. "worst" is max |got - want| / (atol + rtol |want|): at most 1 is right. "us" is the
median over runs that find none of their data in the L2 cache, "b2b" the mean of runs without a pause. A case REF:ID is
another compiler's code for the same work, timed in turn with ID; "x" is its time over ours, above 1 when ours is faster.
"""
import argparse, ast, ctypes, json, math, os, queue, re, struct, subprocess, sys, threading, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
GUARD = 4096  # bytes before and after each buffer
RUNS = 30  # timed runs
CASE_SECONDS = 20  # a case that takes longer hangs


# ---------------------------------------------------------------- launch.json (docs/launch-json.md)
def size(z, env):
    """The value of a size: an integer, or an integer expression over env."""
    if isinstance(z, int):
        return z

    def ev(n):
        if isinstance(n, ast.Expression):
            return ev(n.body)
        if isinstance(n, ast.Constant) and type(n.value) is int:
            return n.value
        if isinstance(n, ast.Name):
            return env[n.id]
        if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub):
            return -ev(n.operand)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("min", "max") and len(n.args) == 2:
            return {"min": min, "max": max}[n.func.id](ev(n.args[0]), ev(n.args[1]))
        if isinstance(n, ast.BinOp):
            a, b = ev(n.left), ev(n.right)
            for op, f in ((ast.Add, lambda: a + b), (ast.Sub, lambda: a - b), (ast.Mult, lambda: a * b), (ast.FloorDiv, lambda: a // b), (ast.Mod, lambda: a % b)):
                if isinstance(n.op, op):
                    return f()
        if isinstance(n, ast.Compare) and len(n.ops) == 1:
            a, b = ev(n.left), ev(n.comparators[0])
            for op, r in ((ast.Lt, a < b), (ast.LtE, a <= b), (ast.Gt, a > b), (ast.GtE, a >= b), (ast.Eq, a == b), (ast.NotEq, a != b)):
                if isinstance(n.ops[0], op):
                    return int(r)
        raise ValueError("size %r: unexpected %s" % (z, type(n).__name__))

    return ev(ast.parse(z, mode="eval"))


BITS = {"bool": 8, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64, "float16": 16, "bfloat16": 16, "float32": 32, "tfloat32": 32, "float64": 64, "handle": 64, "float4_e2m1fn": 4}
TMA_BYTES = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4]  # by CUtensorMapDataType


def bits(dtype):
    return 8 if dtype.startswith("float8_") else BITS[dtype]


class Case:
    """A launch description with its arrays; sizes evaluated."""

    def __init__(self, c):
        import numpy as np

        self.id, self.unordered = c["id"], c.get("unordered", [])
        self.dir = os.path.join(HERE, c["dir"])
        self.spec = json.load(open(os.path.join(self.dir, "launch.json")))
        self.io = json.load(open(os.path.join(HERE, c["data"] + ".json")))
        self.cubin = open(os.path.join(self.dir, self.spec["cubin"]), "rb").read()
        z = np.load(os.path.join(HERE, c["data"] + ".npz"))
        params, s = {p["name"]: p for p in self.io["params"]}, self.spec
        sym = self.io.get("symbolic", {})
        dim = lambda d: sym[d] if isinstance(d, str) else d
        # Arguments are matched by name, else by position among the parameters.
        order = [p["name"] for p in self.io["params"]]
        self.io_name = {a: a if a in params else order[i] for i, a in enumerate(s["args"])}
        self.env, self.scalars = {}, {}
        for a in s.get("scalars", {}):
            v = params[self.io_name[a]]["value"]
            self.scalars[a] = v
            if not isinstance(v, float) or v == int(v):
                self.env[a] = int(v)
        for name, y in s.get("symbols", {}).items():
            p = params[self.io_name[y["buffer"]]]
            if "dim" in y:
                self.env[name] = dim(p["shape"][y["dim"]])
            else:
                self.env[name] = dim(p["strides"][y["stride"]])
        self.bufs = {}
        for name, b in s["buffers"].items():
            shape = [size(x, self.env) for x in b["shape"]]
            strides = [size(x, self.env) for x in b["strides"]] if b.get("strides") else None
            step, dense = 1, []
            for n in reversed(shape):
                dense.insert(0, step)
                step *= n
            strides = strides or dense
            last = sum((n - 1) * t for n, t in zip(shape, strides))
            e = dict(shape=shape, strides=strides, dense=strides == dense, dtype=b["dtype"], bytes=((last + 1) * bits(b["dtype"]) + 7) // 8 if all(shape) else 0, role=b["role"])
            if b["role"] != "workspace":
                p = params[self.io_name[name]]
                # What the arrays say counts: the code generator may not know that a buffer is only written.
                e["role"] = p["role"]
                e["rtol"], e["atol"] = p.get("rtol", self.io["rtol"]), p.get("atol", self.io["atol"])
                e["unordered"] = self.io_name[name] in self.unordered
                for r in ("in", "out"):
                    if p["role"] in (r, "inout"):
                        x = z["%s.%s" % (self.io_name[name], r)]
                        if list(x.shape) != shape:
                            raise ValueError("%s: the %s array has shape %s, the description %s" % (name, r, list(x.shape), shape))
                        e[r] = x
            self.bufs[name] = e

    def launches(self):
        for l in self.spec["launches"]:
            grid, block = [size(x, self.env) for x in l["grid"]], [size(x, self.env) for x in l["block"]]
            if all(grid):
                yield l, grid, block, size(l["smem"], self.env)

    def scalar(self, p):
        v = p["scalar"]
        if isinstance(v, str):
            v = self.scalars[v] if v in self.scalars else size(v, self.env)
        return v

    def check(self):
        """What can be checked without a GPU."""
        for l, grid, block, smem in self.launches():
            slots, static = kernel_params(self.cubin, l["kernel"])
            want = [128 if "tma" in p else 8 if "buffer" in p else bits(p["dtype"]) // 8 for p in l["params"]]
            if slots != want:
                raise ValueError("%s: the cubin's parameters take %s bytes, the description's %s" % (l["kernel"], slots, want))
            if not 0 < math.prod(block) <= 1024 or smem + static > 232448:
                raise ValueError("%s: block %s, %d + %d bytes of shared memory" % (l["kernel"], block, static, smem))
            if l.get("cluster") and any(g % c for g, c in zip(grid, l["cluster"])):
                raise ValueError("%s: grid %s is no multiple of cluster %s" % (l["kernel"], grid, l["cluster"]))
            for p in l["params"]:
                if "tma" in p:
                    dims, st = [size(x, self.env) for x in p["gdim"]], [size(x, self.env) for x in p["gstride_all"]]
                    reach = sum((d - 1) * t for d, t in zip(dims, st)) + TMA_BYTES[p["dtype"]]
                    if any(t % 16 for t in st[1:]) or reach > self.bufs[p["buffer"]]["bytes"]:
                        raise ValueError("%s: extents %s with strides %s don't fit buffer %s" % (p["tma"], dims, st, p["buffer"]))


def kernel_params(elf, kernel):
    """Sizes of the kernel's parameters, from EIATTR_KPARAM_INFO in .nv.info.KERNEL, and its static shared memory."""
    (shoff,) = struct.unpack_from("<Q", elf, 0x28)
    entsize, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    secs = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * entsize) for i in range(count)]
    text = lambda o: elf[secs[names][4] + o : elf.index(b"\0", secs[names][4] + o)].decode()
    by_name = {text(s[0]): s for s in secs}
    if ".nv.info." + kernel not in by_name:
        raise ValueError("the cubin has no kernel " + kernel)
    s = by_name[".nv.info." + kernel]
    d, i, out = elf[s[4] : s[4] + s[5]], 0, {}
    while i < len(d):
        if d[i] == 4:
            n = struct.unpack_from("<H", d, i + 2)[0]
            if d[i + 1] == 0x17:
                _, ordinal, _, w = struct.unpack_from("<IHHI", d, i + 4)
                out[ordinal] = w >> 18
            i += n
        i += 4
    shared = by_name.get(".nv.shared." + kernel, [0] * 6)[5]
    return [out[k] for k in sorted(out)], max(0, shared - (1024 if ".nv.shared.reserved.0" in by_name else 0))


# ---------------------------------------------------------------- element types: arrays hold bfloat16 and fp8 as float32
def fp8_table(np, dtype):
    e_bits, m_bits, bias, has_inf = {"float8_e4m3fn": (4, 3, 7, False), "float8_e4m3": (4, 3, 7, False), "float8_e5m2": (5, 2, 15, True)}[dtype]
    t = np.zeros(256, np.float32)
    top = (1 << e_bits) - 1
    for i in range(256):
        e, m = i >> m_bits & top, i & ((1 << m_bits) - 1)
        v = m / (1 << m_bits) * 2.0 ** (1 - bias) if e == 0 else (1 + m / (1 << m_bits)) * 2.0 ** (e - bias)
        if e == top and has_inf:
            v = math.inf if m == 0 else math.nan
        if e == top and not has_inf and m == (1 << m_bits) - 1:
            v = math.nan
        t[i] = -v if i >> 7 else v
    return t


def encode(np, x, dtype):
    x = np.ascontiguousarray(x)
    if dtype == "bfloat16" and x.dtype == np.float32:
        return (x.view(np.uint32) >> 16).astype(np.uint16)
    if dtype.startswith("float8_") and x.dtype == np.float32:
        t = fp8_table(np, dtype)
        up = np.nonzero(np.isfinite(t[:128]))[0]  # ascending
        i = up[np.minimum(np.searchsorted(t[up], np.abs(x)), len(up) - 1)]
        if (t[i] != np.abs(x)).any():
            raise ValueError("an array of %s holds other values" % dtype)
        return (i | np.where(np.signbit(x), 128, 0)).astype(np.uint8)
    return x


def decode(np, raw, dtype):
    if dtype == "bfloat16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype.startswith("float8_"):
        return fp8_table(np, dtype)[raw.view(np.uint8)]
    return raw.view({"bool": np.uint8}.get(dtype) or np.dtype(dtype))


# ---------------------------------------------------------------- the CUDA driver
class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint8 * 64)]


class Config(ctypes.Structure):
    _fields_ = [("dims", ctypes.c_uint * 6), ("smem", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attrs", ctypes.c_void_p), ("n", ctypes.c_uint)]


class CUDAError(RuntimeError):
    pass


class Driver:
    def __init__(self):
        self.lib = ctypes.CDLL(os.environ.get("LOWERTRACE_LIBCUDA", "libcuda.so.1"))
        i, u, p, z, q = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
        self.types = dict(cuDeviceGet=[p, i], cuDeviceGetName=[p, i, i], cuDeviceGetAttribute=[p, i, i], cuDriverGetVersion=[p], cuDevicePrimaryCtxRetain=[p, i], cuCtxSetCurrent=[p], cuCtxSynchronize=[],
            cuCtxSetLimit=[i, z], cuMemAlloc_v2=[p, z], cuMemFree_v2=[q], cuMemcpyHtoD_v2=[q, p, z], cuMemcpyDtoH_v2=[p, q, z], cuMemcpyDtoDAsync_v2=[q, q, z, p], cuMemsetD8Async=[q, ctypes.c_ubyte, z, p],
            cuModuleLoadData=[p, ctypes.c_char_p], cuModuleUnload=[p], cuModuleGetFunction=[p, p, ctypes.c_char_p], cuFuncSetAttribute=[p, i, i], cuFuncGetAttribute=[p, i, p], cuLaunchKernelEx=[p, p, p, p],
            cuStreamCreate=[p, u], cuEventCreate=[p, u], cuEventRecord=[p, p], cuEventElapsedTime=[p, p, p], cuGetErrorName=[i, p], cuGetErrorString=[i, p], cuInit=[u],
            cuTensorMapEncodeTiled=[p, i, u, q, p, p, p, p, i, i, i, i], cuTensorMapEncodeIm2col=[p, i, u, q, p, p, p, p, u, u, p, i, i, i, i])
        for name, args in self.types.items():
            getattr(self.lib, name).argtypes = args
        self("cuInit", 0)
        dev, ctx, stream = i(), p(), p()
        self("cuDeviceGet", ctypes.byref(dev), 0)
        self.dev = dev.value
        self("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), self.dev)
        self("cuCtxSetCurrent", ctx)
        self("cuStreamCreate", ctypes.byref(stream), 1)
        self.stream = stream

    def __call__(self, name, *args):
        rc = getattr(self.lib, name)(*args)
        if rc:
            text = []
            for f in ("cuGetErrorName", "cuGetErrorString"):
                s = ctypes.c_char_p()
                getattr(self.lib, f)(rc, ctypes.byref(s))
                text.append((s.value or b"?").decode())
            raise CUDAError("%s: %s: %s" % (name, *text))

    def get(self, call, kind, *args):
        v = kind()
        self(call, ctypes.byref(v), *args)
        return v.value

    def attribute(self, n):
        return self.get("cuDeviceGetAttribute", ctypes.c_int, n, self.dev)

    def alloc(self, n):
        return self.get("cuMemAlloc_v2", ctypes.c_uint64, max(n, 1))

    def event(self):
        v = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(v), 0)
        return v

    def elapsed(self, a, b):
        return self.get("cuEventElapsedTime", ctypes.c_float, a, b) * 1e3


def arr(kind, values):
    return (kind * max(1, len(values)))(*values)


class Launch:
    """One launch with its arguments bound to addresses."""

    def __init__(self, d, module, case, l, grid, block, smem, addr):
        self.d, self.keep, ptrs, attrs = d, [], [], []
        f = ctypes.c_void_p()
        d("cuModuleGetFunction", ctypes.byref(f), module, l["kernel"].encode())
        if smem:
            d("cuFuncSetAttribute", f, 8, smem)  # the limit of dynamic shared memory
        self.f, self.regs, self.local = f, d.get("cuFuncGetAttribute", ctypes.c_int, 4, f), d.get("cuFuncGetAttribute", ctypes.c_int, 3, f)
        for p in l["params"]:
            a = addr[p["buffer"]] + size(p.get("byte_offset", 0), case.env) if "buffer" in p else None
            if "tma" in p:
                v = self.tensor_map(case, p, a)
            elif "buffer" in p:
                v = ctypes.c_uint64(a)
            else:
                v = self.value(case.scalar(p), p["dtype"])
            self.keep.append(v)
            ptrs.append(v if isinstance(v, int) else ctypes.addressof(v))
        self.ptrs = arr(ctypes.c_void_p, ptrs)
        for key, ident in (("cluster", 4), ("cooperative", 2), ("programmatic", 6)):
            if l.get(key):
                words = l[key] if key == "cluster" else [1]
                attrs.append((ident, struct.pack("<%dI" % len(words), *words)))
        for w in l.get("l2", [])[-1:]:
            n = min(size(w["bytes"], case.env), d.attribute(108))
            if n > 0:
                d("cuCtxSetLimit", 6, n)
                attrs.append((1, struct.pack("<QQfii", addr[w["buffer"]], n, w["ratio"], 2, 1)))
        self.attrs = (Attribute * max(1, len(attrs)))()
        for to, (ident, value) in zip(self.attrs, attrs):
            to.id = ident
            ctypes.memmove(to.value, value, len(value))
        self.cfg = Config(arr(ctypes.c_uint, [*grid, *block]), smem, d.stream, ctypes.addressof(self.attrs) if attrs else None, len(attrs))

    @staticmethod
    def value(v, dtype):
        if dtype in ("float16", "bfloat16"):
            import numpy as np

            h = np.float16(v).view(np.uint16) if dtype == "float16" else encode(np, np.float32(v).reshape(1), dtype)[0]
            return ctypes.c_uint16(int(h))
        kind = {"bool": "bool", "float32": "float", "float64": "double"}.get(dtype, dtype)
        return getattr(ctypes, "c_" + kind)(v)

    def tensor_map(self, case, p, addr):
        raw = (ctypes.c_uint8 * 256)()
        self.keep.append(raw)
        at = (ctypes.addressof(raw) + 63) // 64 * 64
        dims, strides = [size(x, case.env) for x in p["gdim"]], [size(x, case.env) for x in p["gstride_all"]]
        head = (at, p["dtype"], p["rank"], addr, arr(ctypes.c_uint64, dims), arr(ctypes.c_uint64, strides[1:]))
        tail = (arr(ctypes.c_uint32, p["estride"]), p["interleave"], p["swizzle"], p["l2"], p["oob"])
        if p.get("mode", "tiled") == "tiled":
            self.d("cuTensorMapEncodeTiled", *head, arr(ctypes.c_uint32, p["box"]), *tail)
        else:
            self.d("cuTensorMapEncodeIm2col", *head, arr(ctypes.c_int, p["lower"]), arr(ctypes.c_int, p["upper"]), p["channels"], p["pixels"], *tail)
        return at

    def __call__(self):
        self.d("cuLaunchKernelEx", ctypes.byref(self.cfg), self.f, self.ptrs, None)


# ---------------------------------------------------------------- one case
class Bound:
    """A case on the GPU: buffers allocated and filled, launches bound."""

    def __init__(self, d, case):
        import numpy as np

        self.d, self.case, self.np = d, case, np
        self.base, self.addr, self.init, self.keep = {}, {}, {}, {}
        self.module = None
        for n, b in case.bufs.items():
            self.base[n] = d.alloc(b["bytes"] + 2 * GUARD)
            self.addr[n] = self.base[n] + GUARD
            self.init[n] = np.full(b["bytes"], 0xFF, np.uint8)
            if "in" in b:
                e = encode(np, b["in"], b["dtype"])
                if not b["dense"]:
                    full = np.full(b["bytes"] // e.itemsize, 77, e.dtype)
                    np.lib.stride_tricks.as_strided(full, e.shape, [s * e.itemsize for s in b["strides"]])[...] = e
                    e = full
                self.init[n] = np.ascontiguousarray(e).reshape(-1).view(np.uint8)
            if len(self.init[n]) != b["bytes"]:
                raise ValueError("%s: %d bytes of input for %d" % (n, len(self.init[n]), b["bytes"]))
        m = ctypes.c_void_p()
        d("cuModuleLoadData", ctypes.byref(m), case.cubin + b"\0")
        self.module = m
        self.steps = [Launch(d, m, case, *x, self.addr) for x in case.launches()]

    def run(self):
        d, np = self.d, self.np
        for n, b in self.case.bufs.items():
            d("cuMemsetD8Async", self.base[n], 0xA5, b["bytes"] + 2 * GUARD or 1, d.stream)
        d("cuCtxSynchronize")
        for n, b in self.case.bufs.items():
            if b["bytes"]:
                d("cuMemcpyHtoD_v2", self.addr[n], self.init[n].ctypes.data, b["bytes"])
        d("cuCtxSynchronize")
        for s in self.steps:
            s()
        d("cuCtxSynchronize")
        out = {}
        for n, b in self.case.bufs.items():
            out[n] = np.empty(b["bytes"] + 2 * GUARD, np.uint8)
            d("cuMemcpyDtoH_v2", out[n].ctypes.data, self.base[n], out[n].nbytes)
        return out

    def check(self):
        """Runs twice and compares; a dict for the row."""
        np, r = self.np, dict(notes=[], outputs={})
        first, second = self.run(), self.run()
        r["regs"], r["local"] = max((s.regs for s in self.steps), default=0), max((s.local for s in self.steps), default=0)
        for n, b in self.case.bufs.items():
            body = first[n][GUARD : GUARD + b["bytes"]]
            if (first[n][:GUARD] != 0xA5).any() or (first[n][GUARD + b["bytes"] :] != 0xA5).any():
                r["notes"].append("wrote outside " + n)
                r["outside"] = True
            if b["role"] == "in" and not np.array_equal(body, self.init[n]):
                r["notes"].append("changed its input " + n)
                r["outside"] = True
            if b["role"] in ("out", "inout"):
                got = decode(np, np.ascontiguousarray(body), b["dtype"])
                got = np.lib.stride_tricks.as_strided(got, b["shape"], [s * got.itemsize for s in b["strides"]]) if not b["dense"] else got.reshape(b["shape"])
                r["outputs"][n] = compare(np, got, b["out"], b)
                if not np.array_equal(first[n], second[n]):
                    r["notes"].append("second run differs in " + n)
        r["worst"] = max((o["worst"] for o in r["outputs"].values()), default=0.0)
        r["ok"] = r["worst"] <= 1 and not r.get("outside")
        return r

    def restore(self):
        """Queues giving in-out buffers their first contents again."""
        for n, k in self.keep.items():
            self.d("cuMemcpyDtoDAsync_v2", self.addr[n], k, self.case.bufs[n]["bytes"], self.d.stream)

    def prepare(self):
        for n, b in self.case.bufs.items():
            if b["role"] == "inout" and b["bytes"]:
                self.keep[n] = self.d.alloc(b["bytes"])
                self.d("cuMemcpyHtoD_v2", self.keep[n], self.init[n].ctypes.data, b["bytes"])

    def free(self):
        for p in [*self.base.values(), *self.keep.values()]:
            self.d("cuMemFree_v2", p)
        if self.module:
            self.d("cuModuleUnload", self.module)


def compare(np, got, want, b):
    g, w = np.asarray(got), np.asarray(want)
    if b.get("unordered"):
        g, w = np.sort(g, axis=None), np.sort(w, axis=None)
    same = g == w
    with np.errstate(all="ignore"):
        g, w = g.astype(np.float64), w.astype(np.float64)
        same |= np.isnan(g) & np.isnan(w)
        diff = np.where(same, 0.0, np.abs(g - w))
        q = np.where(same, 0.0, diff / np.maximum(b["atol"] + b["rtol"] * np.abs(w), 1e-300))
    q, diff = np.nan_to_num(q, nan=np.inf), np.nan_to_num(diff, nan=np.inf)
    o = dict(worst=float(q.max(initial=0)), max_abs=float(diff.max(initial=0)), bad=int((q > 1).sum()), of=int(q.size))
    if o["bad"]:
        at = np.unravel_index(int(np.argmax((q > 1).reshape(-1))), q.shape)
        o["first"] = dict(at=[int(x) for x in at], got=float(g[at]), want=float(w[at]))
    return o


class Timer:
    def __init__(self, d):
        self.d, self.flush_bytes = d, max(2 * d.attribute(38), 64 << 20)
        self.scratch = d.alloc(self.flush_bytes)
        self.ev = [d.event() for _ in range(2)]

    def flush(self):
        self.d("cuMemsetD8Async", self.scratch, 0, self.flush_bytes, self.d.stream)

    def once(self, bound, flush, runs):
        d = self.d
        bound.restore()
        for _ in range(1 if flush else 3):  # also hides the time that queueing takes
            self.flush()
        d("cuEventRecord", self.ev[0], d.stream)
        for _ in range(runs):
            for s in bound.steps:
                s()
        d("cuEventRecord", self.ev[1], d.stream)
        d("cuCtxSynchronize")
        return d.elapsed(*self.ev) / runs

    def measure(self, bounds):
        """[(flushed median, back-to-back mean)] in microseconds, the bounds timed in turn."""
        flushed = [[] for _ in bounds]
        b2b = [[] for _ in bounds]
        for b in bounds:
            b.prepare()
            self.once(b, True, 3)
        for _ in range(RUNS):
            for i, b in enumerate(bounds):
                flushed[i].append(self.once(b, True, 1))
        for _ in range(3):
            for i, b in enumerate(bounds):
                b2b[i].append(self.once(b, False, RUNS))
        return [(sorted(f)[len(f) // 2], min(t)) for f, t in zip(flushed, b2b)]


def worker(ids, say, timed):
    cases = {c["id"]: c for c in json.load(open(os.path.join(HERE, "cases.json")))["cases"]}
    try:
        d = Driver()
        name = ctypes.create_string_buffer(100)
        d("cuDeviceGetName", name, 100, d.dev)
        say(kind="gpu", text="%s, compute capability %d.%d, %d SMs, driver for CUDA %d" % (name.value.decode(), d.attribute(75), d.attribute(76), d.attribute(16), d.get("cuDriverGetVersion", ctypes.c_int)))
        timer = Timer(d)
    except Exception as e:
        say(kind="fatal", error=str(e))
        return 4
    for ident in ids:
        say(kind="start", id=ident)
        bounds = []
        try:
            r = None
            for ref in ("", "REF:"):
                if ref + ident not in cases:
                    continue
                b = Bound(d, Case(cases[ref + ident]))
                bounds.append(b)
                x = b.check()
                if ref:
                    r["ref_ok"] = x["ok"]
                else:
                    r = x
                    if not r["ok"]:
                        break
            if timed and r["ok"]:
                t = timer.measure(bounds)
                r["us"], r["b2b"] = t[0]
                if len(t) > 1:
                    r["ref_us"], r["ref_b2b"] = t[1]
            say(kind="result", id=ident, r=r)
        except Exception as e:
            traceback.print_exc()
            say(kind="result", id=ident, r=dict(error="%s" % e))
        try:
            for b in bounds:
                b.free()
            d("cuCtxSynchronize")
        except CUDAError:
            return 3  # the context is lost; a new worker takes the rest
    say(kind="done")
    return 0


# ---------------------------------------------------------------- the parent
def inline(ids, timed):
    """Runs the cases in this process. A buffer's end is its allocation's end, where a memory checker sees it."""
    global GUARD
    GUARD = 0
    right = []

    def say(kind, **m):
        if kind == "gpu":
            print("# " + m["text"])
        elif kind == "fatal":
            print("run.py: " + m["error"])
        elif kind == "result":
            print(row(m["id"], m["r"]), flush=True)
            right.append(m["r"].get("ok", False))

    rc = worker(ids, say, timed)
    print("# %d of %d right" % (sum(right), len(ids)), flush=True)
    return rc or (0 if sum(right) == len(ids) else 1)


def num(v, width, digits=3):
    if v is None:
        return "-".rjust(width)
    return ("inf" if not math.isfinite(v) else "%.*g" % (digits, v) if abs(v) < 1e5 else "%.1e" % v).rjust(width)


HEAD = "%-34s%-7s%9s%6s%7s%9s%9s%7s  %s" % ("case", "", "worst", "regs", "local", "us", "b2b", "x", "notes")


def row(ident, r):
    if "error" in r:
        return "%-34s%-7s %s" % (ident, "ERROR", r["error"][:220])
    x = r["ref_us"] / r["us"] if "ref_us" in r else None
    notes = list(r["notes"]) + (["the reference is wrong here"] if r.get("ref_ok") is False else [])
    s = "%-34s%-7s%s%6d%7d%s%s%s  %s" % (ident, "ok" if r["ok"] else "WRONG", num(r["worst"], 9), r["regs"], r["local"], num(r.get("us"), 9), num(r.get("b2b"), 9), num(x, 7), "; ".join(notes))
    for n, o in r["outputs"].items():
        if o["bad"]:
            s += "\n    %s: %d of %d elements, first at %s: got %.9g, want %.9g" % (n, o["bad"], o["of"], o["first"]["at"], o["first"]["got"], o["first"]["want"])
    return s


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--dry", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("--skip", default="")
    ap.add_argument("--no-time", action="store_true")
    ap.add_argument("--inline", action="store_true")
    ap.add_argument("--worker", default="", help=argparse.SUPPRESS)
    ap.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.worker:
        pipe = os.fdopen(a.fd, "w")
        sys.exit(worker(json.loads(a.worker), lambda **m: (pipe.write(json.dumps(m) + "\n"), pipe.flush()), not a.no_time))
    bundle = json.load(open(os.path.join(HERE, "cases.json")))
    chosen = [c for c in bundle["cases"] if re.search(a.only, c["id"]) and not (a.skip and re.search(a.skip, c["id"]))]
    if a.dry:
        bad = 0
        for c in chosen:
            try:
                Case(c).check()
                print("%-34s ok" % c["id"])
            except Exception as e:
                bad += 1
                print("%-34s BAD %s: %s" % (c["id"], type(e).__name__, e))
        print("%d cases, %d bad" % (len(chosen), bad))
        sys.exit(1 if bad else 0)
    todo = [c["id"] for c in chosen if not c["id"].startswith("REF:")]
    if a.inline:
        print(HEAD, flush=True)
        sys.exit(inline(todo, not a.no_time))
    results, total, start, gpu, lost = {}, len(todo), time.time(), "", 0
    print(HEAD, flush=True)
    while todo and lost < 40:
        rd, wr = os.pipe()
        cmd = [sys.executable, os.path.abspath(__file__), "--worker", json.dumps(todo), "--fd", str(wr)] + (["--no-time"] if a.no_time else [])
        p = subprocess.Popen(cmd, pass_fds=[wr], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(wr)
        q = queue.Queue()

        def pump(f=os.fdopen(rd, errors="replace"), q=q):
            for line in f:
                q.put(json.loads(line))
            q.put(None)

        errors = []
        threading.Thread(target=pump, daemon=True).start()
        threading.Thread(target=lambda p=p, e=errors: e.extend(p.stderr), daemon=True).start()
        current, why, limit = None, "", 90
        while True:
            try:
                m = q.get(timeout=limit)
            except queue.Empty:
                why = "hangs: no answer in %d s" % limit
                p.kill()
                break
            if m is None:
                break
            if m["kind"] == "gpu":
                if not gpu:
                    print("# " + m["text"], flush=True)
                gpu = m["text"]
            elif m["kind"] == "fatal":
                sys.exit("run.py: " + m["error"])
            elif m["kind"] == "start":
                current, limit = m["id"], CASE_SECONDS
            elif m["kind"] == "result":
                results[m["id"]] = m["r"]
                todo.remove(m["id"])
                print(row(m["id"], m["r"]), flush=True)
                current = None
        p.wait()
        if current:
            tail = b"".join(errors[-1:]).decode(errors="replace").strip()
            results[current] = dict(error=why or "the worker died (%d) %s" % (p.returncode, tail))
            todo.remove(current)
            print(row(current, results[current]), flush=True)
        lost += 1
    out = os.environ.get("OUT") or HERE
    with open(os.path.join(out, "results.json"), "w") as f:
        json.dump(dict(gpu=gpu, seconds=time.time() - start, results=results), f, indent=1)
    right = [i for i, r in results.items() if r.get("ok")]
    xs = [results[i]["ref_us"] / results[i]["us"] for i in right if "ref_us" in results[i]]
    for f in bundle.get("failed") or []:
        print("# not in the bundle: %s: %s" % (f["id"], f["why"]))
    if xs:
        print("# time of the reference over ours: geometric mean %.2f, least %.2f, most %.2f over %d" % (math.exp(sum(map(math.log, xs)) / len(xs)), min(xs), max(xs), len(xs)))
    print("# %d of %d right, %d wrong, %d errors, %.0f s" % (len(right), total, sum(r.get("ok") is False for r in results.values()), sum("error" in r for r in results.values()), time.time() - start))
    sys.exit(0 if len(right) == total else 1)


if __name__ == "__main__":
    main()
