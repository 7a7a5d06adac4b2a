// The report's data: distinct lines, states as edits of earlier states, and entries (records of a
// run, or rows of a comparison). Chunks that a cut left incomplete are passed over.

const LINES = [];
const STATES = [];
let ENTRIES = [];
const R = { man: {}, cmp: null, src: -1, ended: false, damaged: false, notes: [], times: new Map() };

function loadChunks() {
  for (const el of document.querySelectorAll("script.lt")) {
    let c;
    try {
      c = JSON.parse(el.textContent);
    } catch {
      R.damaged = true;
      continue;
    }
    el.textContent = "";
    if (c.l !== undefined) for (const s of c.l.split("\n")) LINES.push(s);
    if (c.s) for (const s of c.s) STATES.push({ p: s.p, o: s.o || [], nn: !!s.nn, known: !!s.go, g: s.g, x: s.x, ids: null, org: null });
    switch (c.k) {
      case "head":
        R.man = c.man || {};
        R.cmp = c.cmp || null;
        R.src = c.src ?? -1;
        break;
      case "pass":
        ENTRIES.push({ ...c.pass, key: String(c.pass.i), time: 0, self: 0 });
        break;
      case "row":
        ENTRIES.push({
          ...c.row, key: "r" + ENTRIES.length, i: c.row.ai >= 0 ? c.row.ai : c.row.bi, d: 0, par: -1, time: 0, self: 0,
          c: c.row.kind !== "same", s: c.row.err ? "failed" : "completed",
        });
        break;
      case "time":
        for (let i = 0; i + 2 < c.t.length; i += 3) R.times.set(c.t[i], [c.t[i + 1], c.t[i + 2]]);
        break;
      case "end":
        R.ended = true;
        R.man = { ...R.man, ...c.man };
        R.notes = c.notes || [];
        break;
    }
  }
  if (!R.cmp) ENTRIES.sort((a, b) => a.i - b.i);
  ENTRIES.forEach((e, n) => {
    e.n0 = n;
    e.d = e.d || 0;
    e.add = e.add || 0;
    e.del = e.del || 0;
    const t = R.times.get(e.i);
    if (t && !R.cmp) [e.time, e.self] = t;
    if (!e.s) e.s = "unfinished";
  });
  const count = new Map();
  for (const e of ENTRIES) {
    if (e.d > 0) continue;
    const k = e.ph + "\0" + e.n;
    count.set(k, (count.get(k) || 0) + 1);
    e.occ = count.get(k);
  }
  for (const e of ENTRIES) e.many = e.d === 0 && count.get(e.ph + "\0" + e.n) > 1;
}

// ids returns a state's lines as numbers into LINES.
function ids(k) {
  if (k < 0) return EMPTY;
  const chain = [];
  for (let p = k; p >= 0 && !STATES[p].ids; p = STATES[p].p) chain.push(p);
  while (chain.length) build(STATES[chain.pop()]);
  return STATES[k].ids;
}
const EMPTY = new Int32Array(0);

function build(st) {
  const from = st.p >= 0 ? STATES[st.p].ids : EMPTY;
  const org = st.p >= 0 ? STATES[st.p].org : null;
  let size = from.length;
  const o = st.o;
  for (let i = 0; i < o.length; ) {
    size -= o[i + 1];
    const runs = o[i + 2];
    i += 3;
    for (let r = 0; r < runs; r++, i += 2) size += o[i + 1];
  }
  const out = new Int32Array(size);
  const oo = st.known ? new Int32Array(size) : null;
  let at = 0, n = 0, gi = 0, gn = 0;
  const keep = (c) => {
    out.set(from.subarray(at, at + c), n);
    if (oo && org) oo.set(org.subarray(at, at + c), n);
    at += c;
    n += c;
  };
  for (let i = 0; i < o.length; ) {
    keep(o[i]);
    at += o[i + 1];
    const runs = o[i + 2];
    i += 3;
    for (let r = 0; r < runs; r++, i += 2)
      for (let q = 0; q < o[i + 1]; q++) {
        if (oo && st.g) {
          oo[n] = st.g[gi] || 0;
          if (++gn >= st.g[gi + 1]) { gi += 2; gn = 0; }
        }
        out[n++] = o[i] + q;
      }
  }
  keep(from.length - at);
  if (oo && st.x) for (let i = 0; i + 1 < st.x.length; i += 2) oo[st.x[i]] = st.x[i + 1];
  st.ids = out;
  st.org = oo;
}

// origins returns, for each line of a state, the line of the source it came from (0: unknown), or
// null where the trace has none.
function origins(k) {
  if (k < 0) return null;
  ids(k);
  return STATES[k].org;
}

function textOf(k) {
  if (k < 0) return "";
  const a = ids(k);
  const parts = new Array(a.length);
  for (let i = 0; i < a.length; i++) parts[i] = LINES[a[i]];
  return parts.join("\n") + (a.length && !STATES[k].nn ? "\n" : "");
}

const isCuda = (e) => e && (e.s === "codegen" || e.ph === "codegen" && e.n === "codegen");

// SPOTS are all states worth naming, in order: the input, then what each pass left. side is where
// the entry's comparison shows the state: a on the left, b on the right.
let SOURCE = null; // the list's first entry where the run carries its source text
let SPOTS = [];
const SPOT_OF = new Map(); // state → position of its first spot

function findSpots() {
  const add = (st, entry, side, label) => {
    if (st < 0) return;
    SPOTS.push({ st, entry, side, label });
    if (!SPOT_OF.has(st)) SPOT_OF.set(st, SPOTS.length - 1);
  };
  // The source is a state of its own unless it is the input's text itself.
  const input = ENTRIES.find((e) => e.b >= 0);
  if (SOURCE && !(input && input.b === R.src)) add(R.src, SOURCE, "b", "source");
  for (const e of ENTRIES) {
    if (e === SOURCE) continue;
    const name = `${e.i} ${passName(e)}`;
    if (R.cmp) {
      add(e.b, e, "a", `A · ${name}`);
      add(e.a, e, "b", `B · ${name}`);
      continue;
    }
    if (e.b >= 0 && !SPOT_OF.has(e.b)) add(e.b, e, "a", e === input ? "input" : `before ${name}`);
    if (e.a >= 0 && (!SPOT_OF.has(e.a) || e.c)) add(e.a, e, "b", isCuda(e) ? "CUDA" : `after ${name}`);
  }
}

const passName = (e) => (e.many && !R.cmp ? `${e.n}#${e.occ}` : e.n);

// host finds the lines of a state that belong to functions callable from the host, as pairs
// [from, to) with the functions' names. Such a function carries calling convention 1.
const HOSTS = new Map();
function functionsOf(k) {
  let fs = HOSTS.get(k);
  if (fs) return fs;
  fs = [];
  const a = ids(k);
  const indent = (s) => s.length - s.trimStart().length;
  for (let i = 0; i < a.length; i++) {
    const m = /^\s*def ([A-Za-z_]\w*)\(/.exec(LINES[a[i]]);
    if (!m) continue;
    const depth = indent(LINES[a[i]]);
    let from = i, to = i + 1, host = false;
    while (from > 0 && indent(LINES[a[from - 1]]) === depth && LINES[a[from - 1]].trimStart().startsWith("@")) from--;
    while (to < a.length && (!LINES[a[to]].trim() || indent(LINES[a[to]]) > depth)) {
      if (LINES[a[to]].includes("T.func_attr(") && /"calling_conv": ?1\b/.test(LINES[a[to]])) host = true;
      to++;
    }
    while (!LINES[a[to - 1]].trim()) to--;
    fs.push({ name: m[1], from, to, host });
    i = to - 1;
  }
  HOSTS.set(k, fs);
  return fs;
}

function hostRanges(a, b) {
  const fa = a >= 0 ? functionsOf(a) : [], fb = b >= 0 ? functionsOf(b) : [];
  const names = new Set([...fa, ...fb].filter((f) => f.host).map((f) => f.name));
  return [fa.filter((f) => names.has(f.name)), fb.filter((f) => names.has(f.name))];
}
