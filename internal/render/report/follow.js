// Follow: a name, or a line, through every state of the run.

const F = { name: "", loose: true, lines: null, at: null };

const NAME_HITS = new Map();
function hitsOf(name, loose) {
  const key = (loose ? "~" : "=") + name;
  let h = NAME_HITS.get(key);
  if (h) return h;
  if (NAME_HITS.size > 20) NAME_HITS.clear();
  h = new Uint8Array(LINES.length);
  for (let i = 0; i < LINES.length; i++) if (LINES[i].includes(name) && wordRanges(LINES[i], name, loose, "").length) h[i] = 1;
  NAME_HITS.set(key, h);
  return h;
}

function hitLines(k, h) {
  const out = [], a = ids(k);
  for (let i = 0; i < a.length; i++) if (h[a[i]]) out.push(i);
  return out;
}

const ranges = (lines) => {
  const out = [];
  for (let i = 0; i < lines.length; ) {
    let j = i;
    while (j + 1 < lines.length && lines[j + 1] === lines[j] + 1) j++;
    out.push(j > i ? `${lines[i] + 1}–${lines[j] + 1}` : `${lines[i] + 1}`);
    i = j + 1;
  }
  return out.length > 6 ? out.slice(0, 6).join(", ") + ", …" : out.join(", ");
};

const base = (name) => name.replace(/_\d+$/, "");

// the outer entries with a text, in order
const outer = () => ENTRIES.filter((e) => e.d === 0 && e.s !== "source" && (e.b >= 0 || e.a >= 0));

function sameText(a, b) {
  if (a === b) return true;
  if (a < 0 || b < 0 || STATES[a].nn !== STATES[b].nn) return false;
  const x = ids(a), y = ids(b);
  return x.length === y.length && x.every((v, i) => v === y[i]);
}

// waypoints lists the input and what each outer pass left of it, as `show --line` and `--var` go
// through them: st is the state, was the one on the way before it. A pass whose result was set aside,
// so that the next one began with what it had begun with, left nothing on the way; the next one's
// aside is that result. In a comparison
// the way leads from A to B in each row.
function waypoints() {
  const es = outer(), out = [];
  let aside = null;
  es.forEach((e, i) => {
    if (!out.length && e.b >= 0) out.push({ e, side: "a", st: e.b, was: -1 });
    else if (!R.cmp && out.length && e.c && es[i + 1] && es[i + 1].b >= 0 && sameText(es[i + 1].b, e.b)) {
      aside = e;
      return;
    }
    if (e.a < 0 || e.b < 0) return;
    const w = { e, side: "b", st: e.a, was: R.cmp ? e.b : out[out.length - 1].st };
    if (aside && aside.a >= 0 && sameText(aside.b, e.b)) w.aside = aside.a;
    aside = null;
    out.push(w);
  });
  return out;
}

// gather turns the lines found at each waypoint into steps; before is those in the state before it,
// unless given those of the waypoint before. Entries of no step are counted.
function gather(ways) {
  const steps = [], cudaAt = (i) => i < ways.length && ways[i].side === "b" && isCuda(ways[i].e);
  let quiet = 0, last = -1, written = false; // last: the waypoint to compare with; written: in a text of this code
  ways.forEach((w, i) => {
    const first = w.was < 0, lines = w.lines, cuda = cudaAt(i);
    const before = first ? [] : w.before || ways[last].lines, was = w.before ? w.was : last < 0 ? -1 : ways[last].st;
    written = cuda && (written || lines.length > 0);
    const gone = cuda && !lines.length && !written && before.length > 0 && !cudaAt(i + 1);
    const a = ids(was), b = ids(w.st);
    const same = before.length === lines.length && before.every((l, j) => a[l] === b[lines[j]]);
    if (!cuda || lines.length || gone) last = i;
    if (first ? !lines.length : cuda ? !lines.length && !gone : same) {
      if (!first) quiet++;
      return;
    }
    if (quiet) steps.push({ quiet });
    quiet = 0;
    const what = first ? "input" : cuda && !gone ? "cuda" : !before.length ? "appears" : lines.length ? "changes" : w.inHost ? "host" : "gone";
    // Where it is gone, its last lines are on the entry's other side.
    const left = (what === "gone" || what === "host") && sameText(w.e.b, was) ? { side: "a", st: was, lines: before } : {};
    steps.push({ ...w, what, delta: first ? undefined : lines.length - before.length, ...left });
  });
  if (quiet) steps.push({ quiet });
  return steps;
}

function nameSteps(name, loose) {
  const h = hitsOf(name, loose), at = new Map();
  const hits = (k) => {
    if (!at.has(k)) at.set(k, hitLines(k, h));
    return at.get(k);
  };
  return gather(waypoints().map((w) => ({ ...w, lines: hits(w.st), inHost: w.aside >= 0 && hits(w.aside).length > 0, before: R.cmp && w.was >= 0 ? hits(w.was) : null })));
}

function followName(name) {
  F.lines = null;
  F.at = null;
  F.name = F.loose ? base(name) : name;
  const h = hitsOf(F.name, F.loose);
  drawFollow({ title: F.name, kind: kindOf(F.name, h), steps: nameSteps(F.name, F.loose), src: R.src >= 0 ? hitLines(R.src, h) : [] });
}

// kindOf says what a name is, from the line that declares it.
function kindOf(name, h) {
  const n = `${name}(?:_\\d+)?`;
  for (let i = 0; i < LINES.length; i++) {
    if (!h[i]) continue;
    const s = LINES[i];
    let m;
    if ((m = new RegExp(`\\b${n} = T\\.(?:sblock_)?alloc(?:_\\w+)?\\(.*?(?:scope="([^"]+)")?\\)\\s*$`).exec(s))) return "buffer" + (m[1] ? ", " + m[1] : "");
    if (new RegExp(`\\b${n} = T\\.match_buffer\\(`).test(s)) return "buffer, parameter";
    if (new RegExp(`\\bfor [^:]*\\b${n}\\b[^:]* in `).test(s)) return "loop variable";
    if (new RegExp(`\\b${n} = T\\.(?:launch_thread|env_thread)|\\bT\\.launch_thread\\(${n},`).test(s)) return "thread index";
    if (new RegExp(`\\b${n} = T\\.(?:decl_buffer|Buffer)\\(`).test(s)) return "buffer";
    if (new RegExp(`\\bdef ${n}\\(`).test(s)) return "function";
    if (new RegExp(`[(,] ?${n}: `).test(s)) return "parameter";
    if (new RegExp(`^\\s*${n}: `).test(s)) return "variable";
  }
  return "name";
}

// chainOf lists the states from the input to the generated code that lead through state k.
function chainOf(k) {
  const es = outer().filter((e) => e.b >= 0 && e.a >= 0 && e.a !== e.b);
  const into = new Map(), from = new Map();
  for (const e of es) {
    if (!into.has(e.a)) into.set(e.a, e);
    if (!from.has(e.b)) from.set(e.b, []);
    from.get(e.b).push(e);
  }
  const back = (s) => {
    const out = [], seen = new Set([s]);
    for (let e = into.get(s); e && !seen.has(e.b); e = into.get(e.b)) {
      out.unshift(e);
      seen.add(e.b);
    }
    return out;
  };
  const last = [...es].reverse().find(isCuda) || es[es.length - 1];
  if (!last) return [];
  let path = back(last.a);
  if (k !== R.src && !path.some((e) => e.a === k || e.b === k)) {
    path = back(k);
    const seen = new Set([k]);
    for (let s = k, e; (e = from.get(s)?.[0]) && !seen.has(e.a); s = e.a) {
      path.push(e);
      seen.add(e.a);
    }
  }
  return path;
}

// waysThrough is waypoints, or where state k is not on that way, as a text that was set aside, a way
// that leads through it.
function waysThrough(k) {
  const ways = R.cmp ? [] : waypoints();
  if (k === R.src || ways.some((w) => w.st === k)) return ways;
  const path = chainOf(k);
  if (!path.length) return [{ e: V.entry || ENTRIES[0], side: "b", st: k, was: -1 }];
  return [{ e: path[0], side: "a", st: path[0].b, was: -1 }, ...path.map((e) => ({ e, side: "b", st: e.a, was: e.b }))];
}

// lineSteps follows a line of state k, exactly by its origin where it has one.
function lineSteps(k, line) {
  const org = origins(k);
  const from = k === R.src ? line + 1 : org ? org[line] : 0;
  const ways = from > 0 && !R.cmp ? waypoints() : waysThrough(k);
  if (from > 0) {
    const of = (st) => {
      const out = [], o = origins(st);
      if (o) o.forEach((v, i) => { if (v === from) out.push(i); });
      return out;
    };
    for (const w of ways) Object.assign(w, { lines: of(w.st), inHost: w.aside >= 0 && of(w.aside).length > 0 });
    const found = new Map([k, ...ways.map((w) => w.st)].map((st) => [st, new Map(of(st).map((l) => [l, true]))]));
    if (R.src >= 0) found.set(R.src, new Map([[from - 1, true]]));
    return { from, found, steps: gather(ways) };
  }
  const at = ways.findIndex((w) => w.st === k);
  ways[at].lines = [line];
  ways[at].sure = true;
  const go = (v, w) => {
    const [to, exact] = v.st === w.st ? [v.lines, true] : mapLines(v.st, w.st, v.lines);
    w.lines = to;
    w.sure = v.sure && exact;
  };
  for (let i = at; i + 1 < ways.length; i++) go(ways[i], ways[i + 1]);
  for (let i = at; i > 0; i--) go(ways[i], ways[i - 1]);
  return { from: 0, found: new Map(ways.map((w) => [w.st, new Map(w.lines.map((l) => [l, w.sure]))])), steps: gather(ways) };
}

function followLine(k, line, side) {
  const { from, found, steps } = lineSteps(k, line);
  F.name = "";
  F.at = { k, line, side };
  F.lines = found;
  const src = from > 0 && R.src >= 0 ? [from - 1] : [];
  drawFollow({
    title: from > 0 ? `${sourceName()}:${from}` : `line ${line + 1}`,
    kind: from > 0 ? "by the statements' origins" : `of ${spotLabel(k)}`,
    steps, src, approx: !(from > 0),
    text: from > 0 && R.src >= 0 && from <= ids(R.src).length ? LINES[ids(R.src)[from - 1]] : LINES[ids(k)[line]],
  });
}

const WHAT = { input: "in the input", appears: "appears", gone: "gone", host: "in the host code", changes: "changes", cuda: "in the CUDA" };

function drawFollow(d) {
  const el = $("followbody");
  const shown = d.steps.filter((s) => s.e && s.lines.length);
  const step = (s) => {
    if (s.quiet) return `<li class="q">${s.quiet} ${s.quiet > 1 ? "passes" : "pass"} without a change to it</li>`;
    const label = s.what === "input" ? "Input" : isCuda(s.e) ? "CUDA" : esc(`${s.e.i} ${passName(s.e)}`);
    const go = s.lines.length ? ` data-n="${s.e.n0}" data-s="${s.side}" data-l="${s.lines[0]}"` : "";
    const guess = s.sure === false ? `<abbr class="approx" title="approximate: this trace has no origins, so the line was followed by comparing texts">≈</abbr>` : "";
    const delta = s.what === "changes" && s.delta ? ` ${s.delta > 0 ? "+" : "−"}${Math.abs(s.delta)} ${Math.abs(s.delta) > 1 ? "lines" : "line"}` : "";
    const lines = s.lines.length ? `${s.lines.length > 1 ? "lines" : "line"} ${ranges(s.lines)}` : "";
    const here = V.entry && s.e === V.entry ? " here" : "";
    const snippet = s.lines.length ? `<code>${lineHTML(LINES[ids(s.st)[s.lines[0]]].trim().slice(0, 160), CUDA_STATES.has(s.st), F.name ? wordRanges(LINES[ids(s.st)[s.lines[0]]].trim().slice(0, 160), F.name, F.loose, "fl") : null)}</code>` : "";
    return `<li class="${s.what}${here}"><button${go}${go ? "" : " disabled"}><span class="fn">${label}</span><span class="fw">${WHAT[s.what]}${delta}${guess}</span><span class="fl2">${lines}</span>${snippet}</button></li>`;
  };
  const src = d.src.length
    ? `<h3>Source</h3><ol class="steps">${d.src.slice(0, 12).map((l) => `<li><button data-n="${SOURCE ? SOURCE.n0 : -1}" data-s="b" data-l="${l}"><span class="fn">${esc(sourceName())}:${l + 1}</span><code>${lineHTML(LINES[ids(R.src)[l]].trim().slice(0, 160), false, F.name ? wordRanges(LINES[ids(R.src)[l]].trim().slice(0, 160), F.name, F.loose, "fl") : null)}</code></button></li>`).join("")}</ol>`
    : "";
  const loose = F.name
    ? `<label class="chk"><input type="checkbox" id="loose"${F.loose ? " checked" : ""}> also ${esc(base(F.name))}_1, ${esc(base(F.name))}_2, …</label>`
    : "";
  const note = d.approx ? `<p class="approxnote"><b>≈ approximate.</b> This trace records no origins; the line was followed by comparing neighbouring texts.</p>` : "";
  const curve = sparkline(d.steps);
  el.innerHTML =
    `<div class="ftitle"><b>${esc(d.title)}</b><span>${esc(d.kind)}</span></div>` +
    (d.text !== undefined ? `<code class="ftext">${lineHTML(d.text.trim().slice(0, 400), F.at && CUDA_STATES.has(F.at.k) && !d.src.length, null)}</code>` : "") +
    loose + note + curve + src +
    `<h3>Through the passes</h3>` +
    (shown.length ? `<ol class="steps">${d.steps.map(step).join("")}</ol>` : `<p class="empty">It occurs nowhere.</p>`);
  if (OUTLINE.open) {
    OUTLINE.open = false;
    drawOutline();
  }
  $("follow").hidden = false;
  document.body.classList.add("following");
  $("followname").value = F.name;
}

// sparkline draws how many lines there are after each step.
function sparkline(steps) {
  const pts = [];
  for (const s of steps) if (s.e) pts.push(s.what === "gone" || s.what === "host" ? 0 : s.lines.length);
  if (pts.length < 3) return "";
  const top = Math.max(...pts, 1), w = 260, h = 34;
  const x = (i) => ((i * w) / (pts.length - 1)).toFixed(1), y = (v) => (h - 3 - (v / top) * (h - 8)).toFixed(1);
  let d = `M0 ${y(pts[0])}`;
  for (let i = 1; i < pts.length; i++) d += `H${x(i)}V${y(pts[i])}`;
  return `<svg class="spark" viewBox="0 0 ${w} ${h}" preserveAspectRatio="none" role="img" aria-label="lines: ${pts.join(", ")}"><path d="${d}"/></svg>`;
}

function closeFollow() {
  F.name = "";
  F.lines = null;
  F.at = null;
  V.sel = null;
  $("follow").hidden = true;
  document.body.classList.remove("following");
  redraw();
}
