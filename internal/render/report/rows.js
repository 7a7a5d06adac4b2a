// The rows of a comparison of two states: equal lines, changed pairs, deletions, additions, hidden
// stretches and folded host code.

const GAP_STEP = 20;

// compareModel compares states a and b under the view's options. Lines are aligned without regard to
// white space, so that a block that moved inwards stands beside itself; what differs in white space
// is then a change of its own kind, or none. blocks are stretches of equal lines and changes in
// order; open remembers what the reader has unfolded.
function compareModel(a, b, opt, forced) {
  const ia = ids(a), ib = ids(b);
  const na = withEnd(a), nb = withEnd(b);
  const same = opt.space ? () => true
    : opt.names ? (i, j) => keyOf("names", ia[i]) === keyOf("names", ib[j])
    : (i, j) => na[i] === nb[j];
  const ops = diffStates(a, b, opt.names ? "both" : "space", forced);
  const [ha, hb] = hostRanges(a, b);
  const blocks = []; // {eq, a0, a1, b0, b1, rows}
  const put = (eq, a0, a1, b0, b1, alone) => {
    const l = blocks[blocks.length - 1];
    if (l && l.eq === eq && !l.alone && !alone) {
      l.a1 = a1;
      l.b1 = b1;
    } else blocks.push({ eq, a0, a1, b0, b1, alone });
  };
  let i = 0, j = 0;
  for (const op of [...ops, [ia.length, ia.length, ib.length, ib.length]]) {
    for (; i < op[0]; i++, j++) put(same(i, j), i, i + 1, j, j + 1);
    if (op[0] < op[1] || op[2] < op[3]) put(false, op[0], op[1], op[2], op[3], op.forced);
    i = op[1];
    j = op[3];
  }
  return { a, b, ia, ib, ha, hb, blocks, open: new Map(), hostOpen: false, allOpen: false };
}

const inRanges = (rs, i) => rs.some((r) => i >= r.from && i < r.to);

// changeRows lists the rows of one change; the result is kept.
function changeRows(m, bl) {
  if (bl.rows) return bl.rows;
  const rows = [], da = m.ia.subarray(bl.a0, bl.a1), db = m.ib.subarray(bl.b0, bl.b1);
  let i = 0, j = 0;
  const pairs = bl.alone ? [[0, 0]] : pairLines(da, db);
  for (const [p, q] of [...pairs, [da.length, db.length]]) {
    // Lines without a partner stand side by side as they come.
    for (; i < p || j < q; ) {
      const a = i < p ? bl.a0 + i++ : -1, b = j < q ? bl.b0 + j++ : -1;
      rows.push({ t: a < 0 ? "add" : b < 0 ? "del" : "chg", a, b, loose: true });
    }
    if (p < da.length) {
      const soft = da[p] === db[q] ? "eol" : keyOf("space", da[p]) === keyOf("space", db[q]) ? "ws" : "chg";
      rows.push({ t: soft, a: bl.a0 + p, b: bl.b0 + q });
      i = p + 1;
      j = q + 1;
    }
  }
  return (bl.rows = rows);
}

// rowsOf lays the model out as rows for the view.
function rowsOf(m, opt) {
  const out = [];
  const hidden = { host: 0, add: 0, del: 0, at: -1 };
  const host = (r) => !opt.host && !m.hostOpen && (m.ha.length || m.hb.length) && (r.a < 0 || inRanges(m.ha, r.a)) && (r.b < 0 || inRanges(m.hb, r.b)) && (r.a >= 0 || r.b >= 0);
  const flushHost = () => {
    if (!hidden.host) return;
    out.push({ t: "host", a: -1, b: -1, n: hidden.host, add: hidden.add, del: hidden.del });
    hidden.host = hidden.add = hidden.del = 0;
  };
  const push = (r) => {
    if (host(r)) {
      hidden.host++;
      if (r.t === "add" || r.t === "chg" || r.t === "ws") hidden.add++;
      if (r.t === "del" || r.t === "chg" || r.t === "ws") hidden.del++;
      return;
    }
    flushHost();
    out.push(r);
  };
  const ctx = opt.context < 0 ? Infinity : opt.context;
  m.blocks.forEach((bl, n) => {
    if (!bl.eq) {
      const rows = changeRows(m, bl);
      if (!opt.split) {
        // In one column a run of changed pairs shows all lines before, then all lines after.
        for (let i = 0; i < rows.length; ) {
          // A change of white space alone is shown once, as it is after.
          if (rows[i].t !== "chg" && rows[i].t !== "eol") { push(rows[i++]); continue; }
          let j = i;
          while (j < rows.length && /chg|eol/.test(rows[j].t)) j++;
          for (let k = i; k < j; k++) push({ t: rows[k].t, side: "a", a: rows[k].a, b: -1, pair: rows[k].b, loose: rows[k].loose });
          for (let k = i; k < j; k++) push({ t: rows[k].t, side: "b", a: -1, b: rows[k].b, pair: rows[k].a, loose: rows[k].loose });
          i = j;
        }
      } else for (const r of rows) push(r);
      return;
    }
    const len = bl.a1 - bl.a0;
    const o = m.open.get(n) || { top: 0, bottom: 0 };
    const first = n === 0, last = n === m.blocks.length - 1;
    let head = first ? 0 : ctx, tail = last ? 0 : ctx;
    if (first && last) head = Infinity; // nothing changed: the whole text
    head += o.top;
    tail += o.bottom;
    const eq = (k) => push({ t: m.ia[bl.a0 + k] !== m.ib[bl.b0 + k] ? "soft" : "eq", a: bl.a0 + k, b: bl.b0 + k });
    // A gap of three lines or fewer is not worth a fold.
    if (m.allOpen || o.all || head + tail + 3 >= len) {
      for (let k = 0; k < len; k++) eq(k);
      return;
    }
    for (let k = 0; k < head; k++) eq(k);
    const g0 = head, g1 = len - tail;
    // Host code inside the hidden stretch joins its fold instead.
    for (let k = g0; k < g1; ) {
      const is = host({ a: bl.a0 + k, b: bl.b0 + k });
      let e = k + 1;
      while (e < g1 && host({ a: bl.a0 + e, b: bl.b0 + e }) === is) e++;
      if (is) hidden.host += e - k;
      else {
        flushHost();
        out.push({ t: "gap", a: -1, b: -1, blk: n, n: e - k, g0: bl.a0 + k, g1: bl.a0 + e, first: first || k > g0, last: last || e < g1 });
      }
      k = e;
    }
    for (let k = g1; k < len; k++) eq(k);
  });
  flushHost();
  return out;
}

// scopeOf names the loop, block or function that encloses a line.
function scopeOf(m, line) {
  const text = (i) => LINES[m.ia[i]];
  if (line >= m.ia.length) return "";
  let want = /^\s*/.exec(text(line))[0].length;
  for (let i = line - 1; i >= 0 && want > 0; i--) {
    const s = text(i);
    if (!s.trim()) continue;
    const ind = /^\s*/.exec(s)[0].length;
    if (ind < want && /^\s*(for|with|if|def|class|while|else|elif)\b|\{\s*$/.test(s)) return s.trim();
    want = Math.min(want, ind + 1);
  }
  return "";
}

// unifiedText is the change as a unified diff, for copying.
function unifiedText(m, from, to) {
  const line = (sign, arr, i, k) => sign + LINES[arr[i]] + (i === arr.length - 1 && STATES[k]?.nn ? "\n\\ No newline at end of file" : "");
  const ops = diffStates(m.a, m.b, null);
  if (!ops.length) return "";
  const out = [`--- ${from}`, `+++ ${to}`];
  for (let i = 0; i < ops.length; ) {
    let j = i + 1;
    while (j < ops.length && ops[j][0] - ops[j - 1][1] <= 6) j++;
    const f = ops[i], l = ops[j - 1];
    const lead = Math.min(3, f[0]), tail = Math.min(3, m.ia.length - l[1]);
    const a0 = f[0] - lead, a1 = l[1] + tail, b0 = f[2] - lead, b1 = l[3] + tail;
    const side = (s, e) => (e === s ? `${s},0` : e === s + 1 ? `${s + 1}` : `${s + 1},${e - s}`);
    out.push(`@@ -${side(a0, a1)} +${side(b0, b1)} @@`);
    let at = a0;
    for (const op of ops.slice(i, j)) {
      for (; at < op[0]; at++) out.push(line(" ", m.ia, at, m.a));
      for (; at < op[1]; at++) out.push(line("-", m.ia, at, m.a));
      for (let k = op[2]; k < op[3]; k++) out.push(line("+", m.ib, k, m.b));
    }
    for (; at < a1; at++) out.push(line(" ", m.ia, at, m.a));
    i = j;
  }
  return out.join("\n") + "\n";
}
