// The diff engine, on arrays of line numbers: Myers in linear space, with elements that have no
// partner set aside first, and unique common lines as anchors where a region is too different.

const EXACT_COST = 400;

function diffInts(a, b) {
  let pre = 0;
  while (pre < a.length && pre < b.length && a[pre] === b[pre]) pre++;
  let suf = 0;
  while (suf < a.length - pre && suf < b.length - pre && a[a.length - 1 - suf] === b[b.length - 1 - suf]) suf++;
  const na = a.length - pre - suf, nb = b.length - pre - suf;
  if (!na && !nb) return [];
  if (!na || !nb) return [[pre, pre + na, pre, pre + nb]];
  const inA = new Set(), inB = new Set();
  for (let i = 0; i < na; i++) inA.add(a[pre + i]);
  for (let i = 0; i < nb; i++) inB.add(b[pre + i]);
  const xa = [], ia = [], xb = [], ib = [];
  for (let i = 0; i < na; i++) if (inB.has(a[pre + i])) { xa.push(a[pre + i]); ia.push(i); }
  for (let i = 0; i < nb; i++) if (inA.has(b[pre + i])) { xb.push(b[pre + i]); ib.push(i); }
  const match = new Int32Array(xa.length).fill(-1);
  compareInts(Int32Array.from(xa), Int32Array.from(xb), match);
  const ops = [];
  let i = 0, j = 0;
  const emit = (i1, j1) => { if (i1 > i || j1 > j) ops.push([pre + i, pre + i1, pre + j, pre + j1]); };
  for (let x = 0; x < match.length; x++) {
    if (match[x] < 0) continue;
    emit(ia[x], ib[match[x]]);
    i = ia[x] + 1;
    j = ib[match[x]] + 1;
  }
  emit(na, nb);
  return ops;
}

function compareInts(a, b, match) {
  const work = [[0, a.length, 0, b.length]];
  const span = Math.min(a.length + b.length, 2 * EXACT_COST) + 4;
  const f = new Int32Array(2 * span + 1), g = new Int32Array(2 * span + 1);
  while (work.length) {
    let [a0, a1, b0, b1] = work.pop();
    while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) match[a0++] = b0++;
    while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) match[--a1] = --b1;
    if (a0 === a1 || b0 === b1) continue;
    const [x, y, exact] = middle(a, b, a0, a1, b0, b1, f, g, span);
    if (!exact) {
      const pts = anchors(a, b, a0, a1, b0, b1);
      if (pts.length) {
        for (const [px, py] of pts) {
          work.push([a0, px, b0, py]);
          match[px] = py;
          a0 = px + 1;
          b0 = py + 1;
        }
        work.push([a0, a1, b0, b1]);
        continue;
      }
    }
    work.push([a0, x, b0, y], [x, a1, y, b1]);
  }
}

const BEYOND = 1 << 30;

// middle finds a point of a shortest path, searching from both ends until the searches meet; after
// EXACT_COST edits each it gives the point that either has come furthest to.
function middle(a, b, a0, a1, b0, b1, f, g, span) {
  const n = a1 - a0, m = b1 - b0, delta = n - m, odd = delta & 1;
  for (let d = 0; ; d++) {
    let lo = d > m ? -m + ((d - m) & 1) : -d, hi = d > n ? n - ((d - n) & 1) : d;
    for (let k = lo; k <= hi; k += 2) {
      let x = -1;
      if (!d) x = 0;
      else {
        if (k > -d && k - 1 >= -m) { const l = f[span + k - 1]; if (l >= 0 && l < n) x = l + 1; }
        if (k < d && k + 1 <= n) { const r = f[span + k + 1]; if (r > x && r - k <= m) x = r; }
      }
      if (x < 0) { f[span + k] = -1; continue; }
      while (x < n && x - k < m && a[a0 + x] === b[b0 + x - k]) x++;
      f[span + k] = x;
      const r = k - delta;
      if (odd && r > -d && r < d && x >= g[span + r]) return [a0 + x, b0 + x - k, true];
    }
    lo = d > n ? -n + ((d - n) & 1) : -d;
    hi = d > m ? m - ((d - m) & 1) : d;
    for (let r = lo; r <= hi; r += 2) {
      const k = r + delta;
      let x = BEYOND;
      if (!d) x = n;
      else {
        if (r < d && r + 1 <= m) { const q = g[span + r + 1]; if (q !== BEYOND && q > 0) x = q - 1; }
        if (r > -d && r - 1 >= -n) { const q = g[span + r - 1]; if (q < x && q - k >= 0) x = q; }
      }
      if (x === BEYOND) { g[span + r] = BEYOND; continue; }
      while (x > 0 && x - k > 0 && a[a0 + x - 1] === b[b0 + x - 1 - k]) x--;
      g[span + r] = x;
      if (!odd && k >= -d && k <= d && x <= f[span + k]) return [a0 + x, b0 + x - k, true];
    }
    if (d >= EXACT_COST) {
      let best = -1, bx = 0, by = 0;
      for (let k = -d; k <= d; k += 2) {
        const x = f[span + k], y = x - k;
        if (k >= -m && k <= n && x >= 0 && x <= n && y >= 0 && y <= m && x + y > best) [best, bx, by] = [x + y, x, y];
      }
      return [a0 + bx, b0 + by, false];
    }
  }
}

// anchors are the lines that occur once on each side, thinned to a longest run in the same order.
function anchors(a, b, a0, a1, b0, b1) {
  const ca = new Map(), cb = new Map();
  for (let i = a0; i < a1; i++) ca.set(a[i], ca.has(a[i]) ? -1 : i);
  for (let i = b0; i < b1; i++) cb.set(b[i], cb.has(b[i]) ? -1 : i);
  const pts = [], prev = [], piles = [];
  for (let i = a0; i < a1; i++) {
    const y = cb.get(a[i]);
    if (ca.get(a[i]) < 0 || y === undefined || y < 0) continue;
    let lo = 0, hi = piles.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (pts[piles[mid]][1] < y) lo = mid + 1;
      else hi = mid;
    }
    prev.push(lo ? piles[lo - 1] : -1);
    pts.push([i, y]);
    piles[lo] = pts.length - 1;
  }
  const out = [];
  for (let p = piles.length ? piles[piles.length - 1] : -1; p >= 0; p = prev[p]) out.push(pts[p]);
  return out.reverse();
}

// Keys of lines under a looser equality, numbered.
const KEYS = { space: [new Map(), []], names: [new Map(), []], both: [new Map(), []] };
const withoutSpace = (s) => s.replace(/[ \t\r]+/g, "");
const withoutSuffixes = (s) =>
  s.replace(/"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|(\.?)(?<![\w\u0080-\uffff])([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*?)_\d+(?![\w\u0080-\uffff])|\d[\w\u0080-\uffff]*/g,
    (all, dot, name) => (name && !dot ? name : all));

function keyOf(kind, id) {
  const [table, memo] = KEYS[kind];
  let k = memo[id];
  if (k !== undefined) return k;
  let s = LINES[id];
  if (kind !== "space") s = withoutSuffixes(s);
  if (kind !== "names") s = withoutSpace(s);
  k = table.get(s);
  if (k === undefined) {
    k = table.size;
    table.set(s, k);
  }
  memo[id] = k;
  return k;
}

const keysOf = (kind, a) => (kind ? a.map((id) => keyOf(kind, id)) : a);

// withEnd returns a state's lines with a last line that lacks its line end turned into another number.
function withEnd(k) {
  const a = ids(k);
  if (!a.length || !STATES[k].nn) return a;
  const out = a.slice();
  out[out.length - 1] = ~out[out.length - 1];
  return out;
}

// diffStates compares two states under the view's equality, with forced pairs of lines (see F7).
function diffStates(a, b, kind, forced) {
  const xa = kind ? keysOf(kind, ids(a)) : withEnd(a), xb = kind ? keysOf(kind, ids(b)) : withEnd(b);
  const ops = [];
  let a0 = 0, b0 = 0;
  const part = (a1, b1) => {
    for (const o of diffInts(xa.subarray(a0, a1), xb.subarray(b0, b1))) ops.push([o[0] + a0, o[1] + a0, o[2] + b0, o[3] + b0]);
  };
  for (const [fa, fb] of (forced || []).slice().sort((p, q) => p[0] - q[0])) {
    if (fa < a0 || fb < b0 || fa >= xa.length || fb >= xb.length) continue;
    part(fa, fb);
    if (xa[fa] !== xb[fb]) ops.push(Object.assign([fa, fa + 1, fb, fb + 1], { forced: true }));
    a0 = fa + 1;
    b0 = fb + 1;
  }
  part(xa.length, xb.length);
  for (const op of ops) slide(op, xa, xb, ids(a), ids(b), ops);
  return ops;
}

// slide moves a change that only adds or only deletes to start at its least indented line.
function slide(op, xa, xb, la, lb, ops) {
  const del = op[1] > op[0], add = op[3] > op[2];
  if (del === add) return;
  const x = del ? xa : xb, l = del ? la : lb, s = del ? op[0] : op[2], t = del ? op[1] : op[3];
  const at = ops.indexOf(op);
  const up = at > 0 ? op[0] - ops[at - 1][1] - 1 : s;
  const down = at + 1 < ops.length ? ops[at + 1][0] - op[1] - 1 : x.length - t;
  let lo = 0, hi = 0;
  while (-lo < up && x[s + lo - 1] === x[t + lo - 1]) lo--;
  while (hi < down && x[s + hi] === x[t + hi]) hi++;
  let best = 0, bi = BEYOND;
  for (let k = lo; k <= hi; k++) {
    const text = LINES[l[s + k]];
    const ind = text.trim() ? text.length - text.trimStart().length : BEYOND - 1;
    if (ind <= bi) [best, bi] = [k, ind];
  }
  for (let k = 0; k < 4; k++) op[k] += best;
}

const PAIR_CELLS = 40000, MIN_LIKE = 40, WORD_BYTES = 20000;

// pairLines says which deleted line became which added one: pairs [i, j] in increasing order.
// Lines that differ in white space only come first, the rest goes by likeness.
function pairLines(ia, ib) {
  const pairs = [];
  const xa = keysOf("space", ia), xb = keysOf("space", ib);
  let i = 0, j = 0;
  for (const [i1, i2, j1, j2] of [...diffInts(xa, xb), [ia.length, ia.length, ib.length, ib.length]]) {
    while (i < i1) pairs.push([i++, j++]);
    for (const [p, q] of pairByLikeness(ia.subarray(i1, i2), ib.subarray(j1, j2))) pairs.push([i1 + p, j1 + q]);
    i = i2;
    j = j2;
  }
  return pairs;
}

const BAGS = [];
function bagOf(id) {
  let bag = BAGS[id];
  if (bag) return bag;
  const s = LINES[id].slice(0, WORD_BYTES);
  bag = { n: 0, words: new Map() };
  for (const w of s.match(/\w+/g) || s.match(/\S/g) || []) {
    bag.words.set(w, (bag.words.get(w) || 0) + 1);
    bag.n++;
  }
  return (BAGS[id] = bag);
}

function likeness(x, y) {
  const a = bagOf(x), b = bagOf(y);
  if (!a.n && !b.n) return 100;
  let common = 0;
  for (const [w, n] of a.words) common += Math.min(n, b.words.get(w) || 0);
  return Math.floor((200 * common) / (a.n + b.n));
}

function pairByLikeness(ia, ib) {
  const n = ia.length, m = ib.length, out = [];
  if (!n || !m) return out;
  if (n * m > PAIR_CELLS) {
    for (let i = 0; i < n && i < m; i++) if (likeness(ia[i], ib[i]) >= MIN_LIKE) out.push([i, i]);
    return out;
  }
  const w = m + 1, score = new Int32Array((n + 1) * w), like = new Int32Array(n * m);
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--) {
      let l = likeness(ia[i], ib[j]);
      if (l < MIN_LIKE) l = 0;
      like[i * m + j] = l;
      let best = Math.max(score[(i + 1) * w + j], score[i * w + j + 1]);
      if (l && l + score[(i + 1) * w + j + 1] > best) best = l + score[(i + 1) * w + j + 1];
      score[i * w + j] = best;
    }
  for (let i = 0, j = 0; i < n && j < m; ) {
    const l = like[i * m + j];
    if (l && score[i * w + j] === l + score[(i + 1) * w + j + 1]) out.push([i++, j++]);
    else if (score[i * w + j] === score[(i + 1) * w + j]) i++;
    else j++;
  }
  return out;
}

// wordMarks compares two lines and returns, for each, the ranges that changed.
function wordMarks(s, t) {
  if (s.length > WORD_BYTES || t.length > WORD_BYTES) {
    let pre = 0, suf = 0;
    while (pre < s.length && pre < t.length && s[pre] === t[pre]) pre++;
    while (suf < s.length - pre && suf < t.length - pre && s[s.length - 1 - suf] === t[t.length - 1 - suf]) suf++;
    return [[[pre, s.length - suf]], [[pre, t.length - suf]]];
  }
  const cut = (x) => x.match(/[A-Za-z0-9_\u0080-\uffff]+|[ \t]+|[^]/g) || [];
  const ws = cut(s), wt = cut(t), table = new Map();
  const num = (ws) => Int32Array.from(ws, (w) => { let k = table.get(w); if (k === undefined) table.set(w, (k = table.size)); return k; });
  const pos = (ws) => { const p = [0]; for (const w of ws) p.push(p[p.length - 1] + w.length); return p; };
  const ps = pos(ws), pt = pos(wt), ms = [], mt = [];
  let la = -1;
  for (const [a0, a1, b0, b1] of diffInts(num(ws), num(wt))) {
    if (la >= 0 && !s.slice(la, ps[a0]).trim()) {
      ms[ms.length - 1][1] = ps[a1];
      mt[mt.length - 1][1] = pt[b1];
    } else {
      ms.push([ps[a0], ps[a1]]);
      mt.push([pt[b0], pt[b1]]);
    }
    la = ps[a1];
  }
  return [ms, mt];
}

// lineMap follows the lines of state a into state b: line i became lines lo[i] up to hi[i]. sure
// tells lines that are equal but for white space from those paired by likeness, or by standing in the same gap.
const MAPS = new Map();
const GUESS_LINES = 24;
function lineMap(a, b) {
  const key = a + ":" + b;
  let m = MAPS.get(key);
  if (m) return m;
  const ia = ids(a), ib = ids(b), n = ia.length;
  m = { lo: new Int32Array(n), hi: new Int32Array(n), sure: new Uint8Array(n) };
  let i = 0, j = 0;
  for (const [i1, i2, j1, j2] of [...diffStates(a, b, "space"), [n, n, ib.length, ib.length]]) {
    for (; i < i1; i++, j++) {
      m.lo[i] = j;
      m.hi[i] = j + 1;
      m.sure[i] = 1;
    }
    let q0 = j1;
    for (const [p, q] of [...pairLines(ia.subarray(i1, i2), ib.subarray(j1, j2)), [i2 - i1, j2 - j1]]) {
      // A line without a partner became what stands in the same gap; where that is empty, it belongs
      // to the next pair of the change, or the last.
      const next = p < i2 - i1 ? j1 + q : q0 > j1 ? q0 - 1 : -1;
      for (; i < i1 + p; i++) {
        if (j1 + q > q0) { if (j1 + q - q0 <= GUESS_LINES) [m.lo[i], m.hi[i]] = [q0, j1 + q]; }
        else if (next >= 0) [m.lo[i], m.hi[i]] = [next, next + 1];
      }
      if (i < i2) [m.lo[i], m.hi[i]] = [j1 + q, j1 + q + 1];
      i = Math.min(i + 1, i2);
      q0 = j1 + q + 1;
    }
    i = i2;
    j = j2;
  }
  if (MAPS.size > 40) MAPS.clear(); // each is as long as its states
  MAPS.set(key, m);
  return m;
}

// storedOps are the changes from state a to its child b as the file has them.
function storedOps(b) {
  const o = STATES[b].o, out = [];
  let i = 0, at = 0, n = 0;
  while (i < o.length) {
    at += o[i];
    n += o[i];
    let count = 0;
    const drop = o[i + 1], runs = o[i + 2];
    i += 3;
    for (let r = 0; r < runs; r++, i += 2) count += o[i + 1];
    out.push([at, at + drop, n, n + count]);
    at += drop;
    n += count;
  }
  return out;
}

// mapLines follows some lines of state a into b; the result is the lines there, and whether all of
// them are sure. Lines that the file itself says were kept need no comparison.
function mapLines(a, b, lines) {
  if (!lines.length) return [[], true];
  const down = STATES[b].p === a, up = STATES[a].p === b;
  if (down || up) {
    const ops = storedOps(down ? b : a);
    const [s, e, t] = down ? [0, 1, 3] : [2, 3, 1];
    let k = 0, shift = 0;
    const out = [];
    for (const l of lines) {
      while (k < ops.length && ops[k][e] <= l) {
        shift = ops[k][t] - ops[k][e];
        k++;
      }
      if (k < ops.length && l >= ops[k][s]) break;
      out.push(l + shift);
    }
    if (out.length === lines.length) return [out, true];
  }
  const m = lineMap(a, b), set = new Set();
  let sure = true;
  for (const l of lines) {
    for (let q = m.lo[l]; q < m.hi[l]; q++) set.add(q);
    if (!m.sure[l]) sure = false;
  }
  return [[...set].sort((x, y) => x - y), sure];
}
