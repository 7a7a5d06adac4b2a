#!/usr/bin/env python3
"""Times kernels at full size: ours, another compiler's for the same work, and torch's library calls, in turn.

    python3 full.py [--only REGEX]      one row each, full.results.json in $OUT or beside this file

Needs torch, the CUDA driver and a bundle made with -full. Each result is checked against torch in float32 first, by
|got - want| <= tol (|want| + rms(want)). "us" are medians over launches that find none of their data in the L2 cache,
taken in turn; "ref/ours" and "lib/ours" above 1 mean that ours is faster. Each case runs in a process of its own.
"""
import argparse, json, math, os, re, subprocess, sys, traceback

from run import Case, Driver, Launch  # the bundle's other script

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = 30
SECONDS = 60  # for one case
# The buffer that each family writes.
OUTPUT = {"gemm": "C", "flash": "O", "rms_norm": "Y", "softmax": "Y", "vadd": "C", "copy": "B", "transpose": "Y", "row_sum": "Y", "gemv": "C", "dequant": "C"}


class FullCase(Case):
    """A launch description of full size: buffers are torch's."""

    def __init__(self, folder):
        self.dir = os.path.join(HERE, folder)
        self.spec = json.load(open(os.path.join(self.dir, "launch.json")))
        self.cubin = open(os.path.join(self.dir, self.spec["cubin"]), "rb").read()
        self.env, self.scalars = {}, {}


def tolerance(m, family):
    if m["dtype"] == "float8_e4m3fn":
        return 3e-2
    out = m.get("out", m["dtype"])
    return {"float16": 5e-3 if family == "flash" else 3e-3, "bfloat16": 2e-2, "float32": 1e-5}[out]


def operands(t, m, d):
    """The product's operands as rows by K and K by columns."""
    return (d["A"].t() if m["layout"][0] == "t" else d["A"]), (d["B"].t() if m["layout"][1] == "t" else d["B"])


def unpacked(t, b):
    """int4 weights, low nibble first, zero point 8, as float16."""
    return (t.stack((b & 15, b >> 4), dim=-1).reshape(b.shape[0], -1).to(t.float16)) - 8


def by_rows(t, f, x, rows=2048):
    return t.cat([f(c) for c in x.split(rows)])


def expected(t, family, m, d):
    """(the part of the output that is checked, its float32 value)"""
    part = lambda x: x
    if family == "gemm":
        a, b = operands(t, m, d)
        return part, by_rows(t, lambda r: r.float() @ b.float(), a)
    if family == "flash":
        part = lambda x: x[-1, -1:]
        q, k, v = (part(d[n]).float() for n in "QKV")
        s = (q @ k.transpose(-1, -2)) / math.sqrt(m["D"])
        if m["causal"]:
            s = s.masked_fill(t.ones(s.shape[-2:], dtype=t.bool, device=s.device).triu(1), float("-inf"))
        return part, t.softmax(s, -1) @ v
    if family == "rms_norm":
        return part, by_rows(t, lambda r: r.float() * t.rsqrt(r.float().square().mean(-1, keepdim=True) + 1e-6) * d["W"].float(), d["X"])
    if family == "softmax":
        return part, by_rows(t, lambda r: t.softmax(r.float(), -1), d["X"])
    if family == "vadd":
        return part, d["A"] + d["B"]
    if family == "copy":
        return part, d["A"]
    if family == "transpose":
        return part, d["X"].t()
    if family == "row_sum":
        return part, by_rows(t, lambda r: r.double().sum(-1).float(), d["X"])
    if family == "gemv":
        return part, by_rows(t, lambda r: r.float() @ d["A"].float(), d["B"])
    if family == "dequant":
        w = unpacked(t, d["B"])
        if d["A"].dim() == 1:
            return part, by_rows(t, lambda r: r.float() @ d["A"].float(), w)
        if m.get("ct"):
            part = lambda x: x.t()
        return part, by_rows(t, lambda r: r.float() @ w.float().t(), d["A"])
    raise KeyError(family)


def library(t, family, m, d, out):
    """What torch has for the same work, as a function of nothing."""
    F = t.nn.functional
    if family == "gemm":
        a, b = operands(t, m, d)
        if m["dtype"] == "float8_e4m3fn":
            one = t.ones((), device=a.device)
            return lambda: t._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out.dtype, use_fast_accum=not m.get("precise", False))
        c = t.empty((m["M"], m["N"]), dtype=out.dtype, device=a.device)
        return lambda: t.matmul(a, b, out=c)
    if family == "flash":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attention():
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
                return F.scaled_dot_product_attention(d["Q"], d["K"], d["V"], is_causal=m["causal"])

        return attention
    o = t.empty_like(out)
    if family == "dequant":
        w = unpacked(t, d["B"])
        o = t.empty((m["M"], m["N"]) if d["A"].dim() > 1 else (m["N"],), dtype=out.dtype, device=out.device)
        return lambda: t.matmul(d["A"], w.t(), out=o) if d["A"].dim() > 1 else t.mv(w, d["A"], out=o)
    return {
        "rms_norm": lambda: F.rms_norm(d["X"], (m.get("N"),), d["W"], 1e-6),
        "softmax": lambda: t.softmax(d["X"], -1),
        "vadd": lambda: t.add(d["A"], d["B"], out=o),
        "copy": lambda: o.copy_(d["A"]),
        "transpose": lambda: o.copy_(d["X"].t()),
        "row_sum": lambda: t.sum(d["X"], 1, dtype=t.float32, out=o),
        "gemv": lambda: t.mv(d["B"], d["A"], out=o),
    }[family]


def worst(t, got, want, tol):
    """max |got - want| / (tol (|want| + rms(want))), infinite if something is not finite."""
    rows = max(1, (1 << 26) // max(1, want[0].numel())) if want.dim() > 1 else 1 << 26
    pairs = list(zip(got.split(rows), want.split(rows)))
    rms = math.sqrt(sum(float(w.double().square().sum()) for _, w in pairs) / want.numel()) or 1.0
    q = 0.0
    for g, w in pairs:
        g, w = g.float(), w.float()
        if not bool(t.isfinite(g).all()):
            return math.inf
        q = max(q, float(((g - w).abs() / (tol * (w.abs() + rms))).max()))
    return q


def one(c):
    import torch as t

    dev = t.device("cuda:0")
    t.zeros(1, device=dev)
    t.backends.cuda.matmul.allow_tf32 = False
    d = Driver()  # torch's context is the primary one, and becomes this thread's
    d.stream = t.cuda.current_stream().cuda_stream or None
    family, m = c["family"], c["meta"]
    ref = json.load(open(os.path.join(HERE, c["ref"], "launch.json")))
    types = {n: getattr(t, n) for n in ("float16", "bfloat16", "float32", "uint8", "float8_e4m3fn")}
    g, bufs = t.Generator(device=dev), {}
    for i, n in enumerate(ref["args"]):
        b = ref["buffers"][n]
        g.manual_seed(i + 1)
        kind = types[b["dtype"]]
        if n == OUTPUT[family]:
            bufs[n] = t.full(b["shape"], float("nan"), device=dev).to(kind)
        elif kind == t.uint8:
            bufs[n] = t.randint(0, 256, b["shape"], dtype=kind, device=dev, generator=g)
        else:
            x = t.randn(b["shape"], dtype=t.float16 if kind == types["float8_e4m3fn"] else kind, device=dev, generator=g)
            bufs[n] = x.to(kind)
    out, tol = bufs[OUTPUT[family]], tolerance(m, family)
    part, want = expected(t, family, m, bufs)
    r, fns = {}, {}
    for who in ("ours", "ref"):
        if not c.get(who):
            continue
        case = FullCase(c[who])
        module = d.get("cuModuleLoadData", __import__("ctypes").c_void_p, case.cubin + b"\0")
        # The two number their arguments alike, whatever they call them.
        addr = {n: bufs[ref["args"][i]].data_ptr() for i, n in enumerate(case.spec["args"])}
        for n, b in case.spec["buffers"].items():
            if b["role"] == "workspace":
                addr[n] = t.empty(1 << 28, dtype=t.uint8, device=dev).data_ptr()
        steps = [Launch(d, module, case, *x, addr) for x in case.launches()]
        out.copy_(t.full(out.shape, float("nan"), device=dev).to(out.dtype))
        for s in steps:
            s()
        t.cuda.synchronize()
        r[who + "_worst"] = worst(t, part(out), want, tol)
        r[who + "_regs"] = max(s.regs for s in steps)
        fns[who] = lambda steps=steps: [s() for s in steps]
    fns["lib"] = library(t, family, m, bufs, out)
    fns["lib"]()
    flush = t.empty(1 << 28, dtype=t.uint8, device=dev)
    times = {k: [] for k in fns}
    for f in fns.values():
        for _ in range(3):
            f()
    events = lambda: (t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True))
    marks = []
    for _ in range(RUNS):
        for k, f in fns.items():
            a, b = events()
            flush.zero_()
            a.record()
            f()
            b.record()
            marks.append((k, a, b))
    t.cuda.synchronize()
    for k, a, b in marks:
        times[k].append(a.elapsed_time(b) * 1e3)
    for k, v in times.items():
        r[k + "_us"] = sorted(v)[len(v) // 2]
    return r


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--only", default="")
    ap.add_argument("--one", default="", help=argparse.SUPPRESS)
    a = ap.parse_args()
    full = json.load(open(os.path.join(HERE, "full.json")))
    if a.one:
        try:
            r = one(next(c for c in full["cases"] if c["id"] == a.one))
        except Exception as e:
            traceback.print_exc()
            r = dict(error=("%s: %s" % (type(e).__name__, e))[:300])
        print("RESULT " + json.dumps(r))
        return
    results, ok = {}, True
    print("%-46s%-8s%8s%6s%10s%10s%10s%10s%10s" % ("case", "", "worst", "regs", "us", "ref us", "lib us", "ref/ours", "lib/ours"), flush=True)
    for c in full["cases"]:
        if not re.search(a.only, c["id"]):
            continue
        try:
            p = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", c["id"]], capture_output=True, text=True, timeout=SECONDS)
            lines = [l for l in p.stdout.splitlines() if l.startswith("RESULT ")]
            r = json.loads(lines[-1][7:]) if lines else dict(error="died (%d): %s" % (p.returncode, p.stderr.strip().splitlines()[-1:]))
        except subprocess.TimeoutExpired:
            r = dict(error="hangs: no answer in %d s" % SECONDS)
        results[c["id"]] = r
        if "error" in r:
            ok = False
            print("%-46sERROR   %s" % (c["id"], r["error"]), flush=True)
            continue
        who = "ours" if "ours_us" in r else "ref"
        right = r[who + "_worst"] <= 1
        ok &= right
        f = lambda v, s="%.1f": "-" if v is None else s % v
        x = lambda k: f(r[k + "_us"] / r["ours_us"], "%.2f") if "ours_us" in r and k + "_us" in r else "-"
        print("%-46s%-8s%8s%6d%10s%10s%10s%10s%10s" % (c["id"], ("ok" if right else "WRONG") if who == "ours" else "ref only", f(r[who + "_worst"], "%.2g"), r[who + "_regs"], f(r.get("ours_us")), f(r.get("ref_us")), f(r["lib_us"]), x("ref"), x("lib")), flush=True)
    for f in full.get("failed") or []:
        if re.search(a.only, f["id"]):
            print("# not lowered: %s: %s" % (f["id"], f["why"]))
    out = os.environ.get("OUT") or HERE
    with open(os.path.join(out, "full.results.json"), "w") as f:
        json.dump(results, f, indent=1)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
