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

// the outer entries with both texts, in order
const outer = () => ENTRIES.filter((e) => e.d === 0 && e.s !== "source" && (e.b >= 0 || e.a >= 0));

function followName(name) {
  F.name = name;
  F.lines = null;
  F.at = null;
  const h = hitsOf(F.loose ? base(name) : name, F.loose);
  if (F.loose) F.name = base(name);
  const steps = [];
  // The state before a pass is nearly always the one after the pass before it.
  let lastState = -1, lastHits = null;
  const hits = (k) => {
    if (k === lastState) return lastHits;
    lastState = k;
    return (lastHits = hitLines(k, h));
  };
  let quietRun = 0, first = null;
  const flush = () => { if (quietRun) steps.push({ quiet: quietRun }); quietRun = 0; };
  for (const e of outer()) {
    if (e.b >= 0 && !first) {
      first = { e, side: "a", st: e.b, lines: hits(e.b), what: "input" };
      steps.push(first);
    }
    if (e.a < 0 || e.b < 0) continue;
    const before = hits(e.b), after = hits(e.a);
    const same = before.length === after.length && before.every((l, i) => ids(e.b)[l] === ids(e.a)[after[i]]);
    if (!isCuda(e) && same) { quietRun++; continue; }
    flush();
    const what = isCuda(e) ? "cuda" : !before.length ? "appears" : !after.length ? "gone" : "changes";
    steps.push({ e, side: after.length ? "b" : "a", st: after.length ? e.a : e.b, lines: after.length ? after : before, what, delta: after.length - before.length });
  }
  flush();
  drawFollow({ title: F.name, kind: kindOf(F.name, h), steps, src: R.src >= 0 ? hitLines(R.src, h) : [] });
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

function followLine(k, line, side) {
  F.name = "";
  F.at = { k, line, side };
  F.lines = new Map();
  const path = chainOf(k);
  if (!path.length) path.push({ b: k, a: k, n: V.entry ? V.entry.n : "", i: V.entry ? V.entry.i : 0, self: true });
  const states = [{ st: path[0].b, e: path[0], side: "a", what: "input" }, ...path.map((e) => ({ st: e.a, e, side: "b", what: isCuda(e) ? "cuda" : "" }))];
  const org = origins(k);
  const from = k === R.src ? line + 1 : org ? org[line] : 0;
  let exact = false;
  if (from > 0) {
    exact = true;
    for (const s of states) {
      const o = origins(s.st);
      s.lines = [];
      if (o) o.forEach((v, i) => { if (v === from) s.lines.push(i); });
      s.sure = true;
    }
    if (R.src >= 0) F.lines.set(R.src, new Map([[from - 1, true]]));
  } else {
    const at = states.findIndex((s) => s.st === k);
    if (at < 0) return;
    states[at].lines = [line];
    states[at].sure = true;
    const go = (i, j) => {
      const [lines, sure] = mapLines(states[i].st, states[j].st, states[i].lines);
      states[j].lines = lines.slice(0, 200);
      states[j].sure = states[i].sure && sure;
    };
    for (let i = at; i + 1 < states.length; i++) go(i, i + 1);
    for (let i = at; i > 0; i--) go(i, i - 1);
  }
  for (const s of states) F.lines.set(s.st, new Map(s.lines.map((l) => [l, s.sure])));
  const steps = [];
  let quietRun = 0;
  const text = (s) => s.lines.map((l) => LINES[ids(s.st)[l]]).join("\n");
  states.forEach((s, i) => {
    const same = i > 0 && s.what !== "cuda" && text(s) === text(states[i - 1]);
    if (same) { quietRun++; return; }
    if (quietRun) steps.push({ quiet: quietRun });
    quietRun = 0;
    const was = i ? states[i - 1].lines.length : 0;
    const what = s.what || (!s.lines.length ? (was ? "gone" : "quiet") : !was ? "appears" : "changes");
    if (what === "quiet" || !s.lines.length && what !== "gone") { quietRun++; return; }
    steps.push({ ...s, what, delta: i ? s.lines.length - was : 0 });
  });
  if (quietRun) steps.push({ quiet: quietRun });
  const src = from > 0 && R.src >= 0 ? [from - 1] : [];
  drawFollow({
    title: from > 0 ? `${sourceName()}:${from}` : `line ${line + 1}`,
    kind: exact ? "by the statements' origins" : `of ${spotLabel(k)}`,
    steps, src, approx: !exact,
    text: from > 0 && R.src >= 0 && from <= ids(R.src).length ? LINES[ids(R.src)[from - 1]] : LINES[ids(k)[line]],
  });
}

const WHAT = { input: "in the input", appears: "appears", gone: "gone", changes: "changes", cuda: "in the CUDA" };

function drawFollow(d) {
  const el = $("followbody");
  const shown = d.steps.filter((s) => s.e && s.lines.length);
  const step = (s) => {
    if (s.quiet) return `<li class="q">${s.quiet} ${s.quiet > 1 ? "passes" : "pass"} without a change to it</li>`;
    const label = s.what === "input" ? "Input" : s.what === "cuda" ? "CUDA" : esc(`${s.e.i} ${passName(s.e)}`);
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
  for (const s of steps) if (s.e) pts.push(s.what === "gone" ? 0 : s.lines.length);
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
