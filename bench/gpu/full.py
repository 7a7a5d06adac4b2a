#!/usr/bin/env python3
"""Times kernels at full size: ours, another compiler's for the same work, and torch's library calls, in turn.

    python3 full.py [--only REGEX]      one row each, full.results.json in $OUT or beside this file
    python3 full.py --dry               no GPU: launch descriptions against cubins
    python3 full.py --table FILE        the table of docs/performance.md from a full.results.json

Needs torch, the CUDA driver and a bundle made with -full. Each result is checked against torch in float32 first, by
|got - want| <= tol (|want| + rms(want)). "us" are medians of five rounds; in a round, ours, the other compiler's and the
library are launched in turn, each launch finds none of its data in the L2 cache, and the round's time is the median of
its launches. "ref/ours" and "lib/ours" are medians of the rounds' ratios; above 1, ours is faster. A worker process does
the work, and a crash or a hang loses one case.
"""
import argparse, ctypes, json, math, os, queue, re, subprocess, sys, threading, traceback

from run import Case, Driver, Launch, bits, size  # the bundle's other script

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 5
RUNS = 3, 9  # launches of one kernel in a round: at least, at most
ROUND_US = 10e3  # a round's time for one kernel, where RUNS allows it
SECONDS = 30  # for one case, and for torch to start
COPY_BYTES = 1 << 30
# The buffer that each family writes.
OUTPUT = {"gemm": "C", "flash": "O", "rms_norm": "Y", "softmax": "Y", "vadd": "C", "copy": "B", "transpose": "Y", "row_sum": "Y", "gemv": "C", "dequant": "C"}


class FullCase(Case):
    """A launch description of full size: buffers are torch's."""

    def __init__(self, folder):
        self.dir = os.path.join(HERE, folder)
        self.spec = json.load(open(os.path.join(self.dir, "launch.json")))
        self.cubin = open(os.path.join(self.dir, self.spec["cubin"]), "rb").read()
        self.env, self.scalars = {}, {}
        self.bufs = {n: dict(bytes=math.prod(size(x, {}) for x in b["shape"]) * bits(b["dtype"]) // 8) for n, b in self.spec["buffers"].items() if b["role"] != "workspace"}


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


def median(v):
    return sorted(v)[len(v) // 2]


def work(family, m):
    """(floating-point operations, bytes that must move) of a case; one of them is 0."""
    if family == "gemm":
        return 2 * m["M"] * m["N"] * m["K"], 0
    if family == "flash":
        return 4 * m["B"] * m["H"] * m["S"] ** 2 * m["D"] // (2 if m["causal"] else 1), 0
    if family == "dequant":
        return (2 * m["M"] * m["N"] * m["K"], 0) if m["M"] >= 64 else (0, m["N"] * m["K"] // 2 + 2 * m["M"] * (m["N"] + m["K"]))
    return 0, {
        "rms_norm": lambda: 4 * m["M"] * m["N"],
        "softmax": lambda: 4 * m["M"] * m["N"],
        "vadd": lambda: 12 * m["N"],
        "copy": lambda: 8 * m["N"],
        "transpose": lambda: 4 * m["M"] * m["N"],
        "row_sum": lambda: 2 * m["M"] * m["N"] + 4 * m["M"],
        "gemv": lambda: 2 * m["N"] * m["K"],
    }[family]()


class Bench:
    """The GPU through torch and the driver."""

    def __init__(self):
        import torch as t

        self.t, self.dev = t, t.device("cuda:0")
        t.zeros(1, device=self.dev)
        t.backends.cuda.matmul.allow_tf32 = False
        self.d = Driver()  # torch's context is the primary one, and becomes this thread's
        self.d.stream = t.cuda.current_stream().cuda_stream or None
        self.flush = t.empty(1 << 28, dtype=t.uint8, device=self.dev)

    def copy_bandwidth(self):
        """Bytes per second, read and written, of a copy on the device."""
        a, b = (self.t.zeros(COPY_BYTES, dtype=self.t.uint8, device=self.dev) for _ in range(2))
        us = self.rounds({"copy": lambda: b.copy_(a)})["copy"]
        return 2 * COPY_BYTES / (median(us) * 1e-6)

    def rounds(self, fns):
        """The functions' times in microseconds, by round, the functions called in turn."""
        t = self.t

        def timed(f):
            a, b = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
            self.flush.zero_()
            a.record()
            f()
            b.record()
            return a, b

        runs = {}
        for k, f in fns.items():
            f()
            marks = [timed(f) for _ in range(2)]
            t.cuda.synchronize()
            runs[k] = int(min(RUNS[1], max(RUNS[0], ROUND_US / (marks[-1][0].elapsed_time(marks[-1][1]) * 1e3))))
        out = {k: [] for k in fns}
        for _ in range(ROUNDS):
            marks = [(k, timed(f)) for i in range(max(runs.values())) for k, f in fns.items() if i < runs[k]]
            t.cuda.synchronize()
            for k in fns:
                out[k].append(median([a.elapsed_time(b) * 1e3 for q, (a, b) in marks if q == k]))
        return out

    def one(self, c):
        t, d, dev = self.t, self.d, self.dev
        family, m = c["family"], c["meta"]
        ref = json.load(open(os.path.join(HERE, c.get("ref") or c["ours"], "launch.json")))
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
        r, fns, keep = {}, {}, []
        for who in ("ours", "ref"):
            if not c.get(who):
                continue
            case = FullCase(c[who])
            module = d.get("cuModuleLoadData", ctypes.c_void_p, case.cubin + b"\0")
            # The two number their arguments alike, whatever they call them.
            addr = {n: bufs[ref["args"][i]].data_ptr() for i, n in enumerate(case.spec["args"])}
            for n, b in case.spec["buffers"].items():
                if b["role"] == "workspace":
                    keep.append(t.empty(1 << 28, dtype=t.uint8, device=dev))
                    addr[n] = keep[-1].data_ptr()
            steps = [Launch(d, module, case, *x, addr) for x in case.launches()]
            out.fill_(float("nan"))
            for s in steps:
                s()
            t.cuda.synchronize()
            r[who + "_worst"] = worst(t, part(out), want, tol)
            r[who + "_regs"], r[who + "_local"] = max(s.regs for s in steps), max(s.local for s in steps)
            fns[who] = lambda steps=steps: [s() for s in steps]
        del want
        fns["lib"] = library(t, family, m, bufs, out)
        times = self.rounds(fns)
        for k, v in times.items():
            r[k + "_us"], r[k + "_rounds"] = median(v), v
            if "ours" in times and k != "ours":
                r[k + "_ratio"] = median([x / y for x, y in zip(v, times["ours"])])
        return r


def worker(ids):
    say = lambda **m: print("MESSAGE " + json.dumps(m), flush=True)
    bench = Bench()
    cases = {c["id"]: c for c in json.load(open(os.path.join(HERE, "full.json")))["cases"]}
    say(kind="gpu", name=bench.t.cuda.get_device_name(), torch=bench.t.__version__, copy=bench.copy_bandwidth())
    for i in ids:
        say(kind="start", id=i)
        lost = False
        try:
            r = bench.one(cases[i])
        except Exception as e:
            traceback.print_exc()
            r = dict(error=("%s: %s" % (type(e).__name__, e))[:300])
        bench.t.cuda.empty_cache()
        try:
            bench.t.cuda.synchronize()
        except Exception:
            lost = True  # so is the context; a new worker takes the rest
        say(kind="result", id=i, r=r)
        if lost:
            os._exit(3)


def problem(c):
    """What a case computes, without how: the variants of one problem have the same."""
    m, x = c["meta"], "×"
    dims = lambda names: x.join(str(m[n]) for n in names if n in m)
    if c["family"] == "flash":
        return "attention %s %s, %s" % (m["dtype"], dims("BHSD"), "causal" if m["causal"] else "full")
    if c["family"] == "dequant":
        return "int4-weight gemm %s" % dims("MNK")
    return "%s %s %s" % (c["family"], m["dtype"], dims("MNK"))


def table(results):
    """Markdown: a row for each problem, of the variant where ours is fastest and the one where the other compiler's is."""
    if not results["gpu"]:
        return "Nothing was measured."
    copy, groups = results["gpu"]["copy"], {}
    for r in results["cases"].values():
        if "ours_us" in r and r["ours_worst"] <= 1 and r.get("ref_worst", 0) <= 1:
            groups.setdefault(problem(r), []).append(r)
    out = ["| problem | variants | best variant | ours | other compiler | its best | ratio | least | library | ratio | rate | of copy |", "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    ratios = []
    for name, rs in groups.items():
        ours, both = min(rs, key=lambda r: r["ours_us"]), [r for r in rs if "ref_us" in r]
        cells = ["", "", "", ""]
        if both:
            ref = min(both, key=lambda r: r["ref_us"])
            # One variant: the rounds' ratio, else the ratio of the two best.
            ratio = ours["ref_ratio"] if ours is ref else ref["ref_us"] / ours["ours_us"]
            ratios.append(ratio)
            cells = ["%.1f µs" % ours["ref_us"] if "ref_us" in ours else "", "%.1f µs" % ref["ref_us"], "%.2f" % ratio, "%.2f" % min(r["ref_ratio"] for r in both)]
        flop, moved = work(ours["family"], ours["meta"])
        rate = "%.0f TFLOP/s" % (flop / ours["ours_us"] * 1e-6) if flop else "%.0f GB/s" % (moved / ours["ours_us"] * 1e-3)
        of = "" if flop else "%.1f %%" % (100 * moved / (ours["ours_us"] * 1e-6) / copy)
        row = [name, "%d" % len(rs), ours["meta"]["cfg"], "%.1f µs" % ours["ours_us"], *cells, "%.1f µs" % ours["lib_us"], "%.2f" % ours["lib_ratio"], rate, of]
        out.append("| " + " | ".join(row) + " |")
    if ratios:
        out += ["", "Geometric mean of the ratios %.3f, least %.3f, over %d problems; copy on the device %.0f GB/s; %s, torch %s." % (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios), len(ratios), copy * 1e-9, results["gpu"]["name"], results["gpu"]["torch"])]
    return "\n".join(out)


HEAD = "%-46s%-8s%8s%6s%7s%10s%10s%10s%10s%10s" % ("case", "", "worst", "regs", "local", "us", "ref us", "lib us", "ref/ours", "lib/ours")


def row(ident, r):
    if "error" in r:
        return "%-46sERROR   %s" % (ident, r["error"])
    who = "ours" if "ours_us" in r else "ref"
    f = lambda v, s="%.1f": "-" if v is None else s % v
    verdict = "ref only" if who == "ref" else "WRONG" if r["ours_worst"] > 1 else "ok" if r.get("ref_worst", 0) <= 1 else "ok (*)"
    return "%-46s%-8s%8s%6d%7d%10s%10s%10s%10s%10s" % (ident, verdict, f(r[who + "_worst"], "%.2g"), r[who + "_regs"], r[who + "_local"], f(r.get("ours_us")), f(r.get("ref_us")), f(r["lib_us"]), f(r.get("ref_ratio"), "%.2f"), f(r.get("lib_ratio"), "%.2f"))


def dry(cases):
    bad = 0
    for c in cases:
        for who in ("ours", "ref"):
            if not c.get(who):
                continue
            try:
                FullCase(c[who]).check()
                work(c["family"], c["meta"]), problem(c), tolerance(c["meta"], c["family"])
            except Exception as e:
                bad += 1
                print("%s %s BAD %s: %s" % (c["id"], who, type(e).__name__, e))
    print("%d cases, %d bad" % (len(cases), bad))
    return 1 if bad else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--only", default="")
    ap.add_argument("--dry", action="store_true")
    ap.add_argument("--table", default="", metavar="FILE")
    ap.add_argument("--worker", default="", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.table:
        print(table(json.load(open(a.table))))
        return
    if a.worker:
        worker(json.loads(a.worker))
        return
    full = json.load(open(os.path.join(HERE, "full.json")))
    cases = {c["id"]: c for c in full["cases"] if re.search(a.only, c["id"])}
    if a.dry:
        sys.exit(dry(cases.values()))
    out = os.path.join(os.environ.get("OUT") or HERE, "full.results.json")
    todo, ok, fruitless = list(cases), True, 0
    results = dict(gpu={}, cases={})
    print(HEAD, flush=True)
    while todo and fruitless < 2:
        fruitless += 1
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", json.dumps(todo)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        lines, errors = queue.Queue(), []

        def pump(f=p.stdout, q=lines):
            for line in f:
                q.put(line)
            q.put(None)

        threading.Thread(target=pump, daemon=True).start()
        drain = threading.Thread(target=lambda f=p.stderr, e=errors: e.extend(f), daemon=True)
        drain.start()
        current, why = None, ""
        while True:
            try:
                line = lines.get(timeout=SECONDS)
            except queue.Empty:
                why = "hangs: no answer in %d s" % SECONDS
                p.kill()
                break
            if line is None:
                break
            if not line.startswith("MESSAGE "):
                continue
            m = json.loads(line[8:])
            if m["kind"] == "gpu":
                if not results["gpu"]:
                    print("# %(name)s, torch %(torch)s" % m + ", copy on the device %.0f GB/s" % (m["copy"] * 1e-9), flush=True)
                results["gpu"] = m
            elif m["kind"] == "start":
                current = m["id"]
            elif m["kind"] == "result":
                r, current, fruitless = m["r"], None, 0
                todo.remove(m["id"])
                results["cases"][m["id"]] = dict(cases[m["id"]], **r)
                ok &= r.get("ours_worst", math.inf) <= 1
                print(row(m["id"], r), flush=True)
                with open(out, "w") as f:
                    json.dump(results, f, indent=1)
        p.wait()
        drain.join(5)
        if current:
            results["cases"][current] = dict(cases[current], error=why or "the worker died (%d): %s" % (p.returncode, "".join(errors[-1:]).strip()))
            todo.remove(current)
            ok, fruitless = False, 0
            print(row(current, results["cases"][current]), flush=True)
        elif todo and p.returncode not in (0, 3):
            print("# the worker died (%d): %s" % (p.returncode, why or "".join(errors[-1:]).strip()))
    for f in full.get("failed") or []:
        if re.search(a.only, f["id"]):
            print("# not lowered: %s: %s" % (f["id"], f["why"]))
    print("\n" + table(results))
    with open(out, "w") as f:
        json.dump(results, f, indent=1)
    sys.exit(0 if ok and not todo else 1)


if __name__ == "__main__":
    main()
