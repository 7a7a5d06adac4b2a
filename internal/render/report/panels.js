// Search over all passes, comparing any two states, the run's details, and what the header says.

const Q = { text: "", re: false, cased: false, results: [] };

function queryRegex() {
  if (!Q.text) return null;
  try {
    return new RegExp(Q.re ? Q.text : Q.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), Q.cased ? "g" : "gi");
  } catch {
    return null;
  }
}

function findRanges(s, re) {
  const out = [];
  re.lastIndex = 0;
  let m;
  while ((m = re.exec(s)) && out.length < 200) {
    if (!m[0]) { re.lastIndex++; continue; }
    out.push([m.index, m.index + m[0].length, "hit"]);
  }
  return out;
}

const MAX_RESULTS = 300;

function search() {
  const re = queryRegex();
  V.find = re;
  const box = $("results");
  if (!re) {
    box.hidden = !Q.text;
    box.innerHTML = Q.text ? `<p class="empty">Not a valid regular expression.</p>` : "";
    $("q").setAttribute("aria-expanded", String(!box.hidden));
    redraw();
    return;
  }
  const hit = new Uint8Array(LINES.length);
  let any = 0;
  for (let i = 0; i < LINES.length; i++) {
    re.lastIndex = 0;
    if (re.test(LINES[i])) { hit[i] = 1; any++; }
  }
  const found = new Map(); // line id → {spot, line, last, n}
  if (any)
    SPOTS.forEach((s, k) => {
      const a = ids(s.st);
      for (let i = 0; i < a.length; i++) {
        if (!hit[a[i]]) continue;
        const f = found.get(a[i]);
        if (!f) found.set(a[i], { id: a[i], spot: k, line: i, last: k, lastLine: i, n: 1 });
        else if (f.last !== k) { f.last = k; f.lastLine = i; f.n++; }
      }
    });
  Q.results = [...found.values()].sort((x, y) => x.spot - y.spot || x.line - y.line);
  const passes = new Set(Q.results.map((f) => f.spot)).size;
  let html = `<p class="rcount">${Q.results.length ? `${Q.results.length.toLocaleString("en")} different lines, first seen in ${passes} ${passes > 1 ? "states" : "state"}` : "No pass contains that."}</p>`;
  let spot = -1;
  Q.results.slice(0, MAX_RESULTS).forEach((f, i) => {
    if (f.spot !== spot) {
      spot = f.spot;
      html += `<div class="rg">${esc(SPOTS[spot].label)}</div>`;
    }
    const raw = LINES[f.id], pre = raw.length - raw.trimStart().length;
    re.lastIndex = 0;
    const m = re.exec(raw);
    const from = Math.max(pre, m && m.index > 120 ? m.index - 60 : pre);
    const s = raw.slice(from, from + 220);
    const until = f.last === f.spot ? "only there" : f.last === SPOTS.length - 1 ? "to the end" : `until ${SPOTS[f.last].label}`;
    html += `<div class="ri" role="option" id="ri${i}" aria-selected="false" data-r="${i}"><code>${from > pre ? "…" : ""}${lineHTML(s, CUDA_STATES.has(SPOTS[f.spot].st), findRanges(s, re))}</code><span>line ${f.line + 1} · ${esc(until)}</span></div>`;
  });
  if (Q.results.length > MAX_RESULTS) html += `<p class="rcount">and ${(Q.results.length - MAX_RESULTS).toLocaleString("en")} more: narrow the search</p>`;
  box.innerHTML = html;
  box.hidden = false;
  $("q").setAttribute("aria-expanded", "true");
  redraw();
}

function pickResult(i) {
  const f = Q.results[i];
  if (!f) return;
  const s = SPOTS[f.spot];
  $("results").hidden = true;
  $("q").setAttribute("aria-expanded", "false");
  go({ pass: s.entry.key, side: s.side, line: f.line + 1 });
}

function fillCompare() {
  const opts = SPOTS.map((s, i) => `<option value="${i}">${esc(s.label)}</option>`).join("");
  for (const id of ["cmpa", "cmpb"]) if ($(id).children.length !== SPOTS.length) $(id).innerHTML = opts;
  const at = (k, d) => (k >= 0 && SPOT_OF.has(k) ? SPOT_OF.get(k) : d);
  $("cmpa").value = at(V.a, 0);
  $("cmpb").value = at(V.b, SPOTS.length - 1);
}

function counts() {
  const c = { passes: 0, changed: 0, time: 0, failed: null, cuda: null };
  for (const e of ENTRIES) {
    if (e.d > 0 || e.s === "source") continue;
    c.time += e.time;
    if (e.s === "failed" && !c.failed) c.failed = e;
    if (isCuda(e)) { c.cuda = e; continue; }
    if (e.s === "skipped") continue;
    c.passes++;
    if (e.c) c.changed++;
  }
  return c;
}

function drawHeader() {
  const c = counts(), m = R.man;
  const parts = [];
  if (R.cmp) {
    const own = ENTRIES.filter((e) => e.c && e.kind !== "inherits").length;
    parts.push(c.changed ? `${c.changed} of ${c.passes} passes differ, ${own} of their own making` : `no difference in ${c.passes} passes`);
  } else {
    if (m.target) parts.push(`<b>${esc(m.target)}</b>`);
    parts.push(`${c.changed} of ${c.passes} changed`);
    if (c.time) parts.push(duration(c.time));
    if (c.cuda && c.cuda.a >= 0) parts.push(`CUDA ${ids(c.cuda.a).length} lines`);
  }
  $("sub").innerHTML = parts.join('<span class="dot">·</span>');
  let banner = "";
  if (R.damaged || !R.ended) banner += `<p class="warn"><b>This report ends early.</b> The run was still at work, or was killed; all that finished before is here.</p>`;
  if (!R.cmp && c.failed) banner += `<p class="bad"><b>${nameEsc(c.failed.n)} failed:</b> <span>${codeEsc((c.failed.err || "").split("\n")[0])}</span> <button id="tofail">Show</button></p>`;
  else if (!R.cmp && m.error) banner += `<p class="bad"><b>The run failed:</b> <span>${codeEsc(m.error)}</span></p>`;
  if (m.state === "interrupted") banner += `<p class="warn"><b>The run was interrupted.</b></p>`;
  if (R.cmp && R.cmp.input) banner += `<p class="warn"><b>The inputs differ before the first pass.</b></p>`;
  for (const n of R.notes) banner += `<p class="warn">${codeEsc(n)}</p>`;
  $("banner").innerHTML = banner;
}

// drawHead describes the entry on screen.
function drawHead() {
  const e = V.entry, el = $("head");
  if (!e) {
    el.innerHTML = `<div class="h1"><h2>${esc(spotLabel(V.a))} <span class="dim">to</span> ${esc(spotLabel(V.b))}</h2></div>`;
    return;
  }
  let status = e.c ? "CHANGED" : "NO-OP", cls = e.c ? "changed" : "noop";
  if (STATUS_TEXT[e.s]) [status, cls] = [STATUS_TEXT[e.s], e.s];
  if (R.cmp) [status, cls] = [{ same: "SAME", differs: "DIFFERS", inherits: "DIFFERS AS BEFORE IT", "only-a": "ONLY IN A", "only-b": "ONLY IN B" }[e.kind], e.c ? "changed" : "noop"];
  if (e.s === "source") [status, cls] = ["SOURCE", "noop"];
  const par = e.par >= 0 ? ENTRIES.find((x) => x.i === e.par) : null;
  const nested = par ? `<span class="meta">ran inside <button class="lnk" data-n="${par.n0}">${esc(par.i + " " + par.n)}</button></span>` : "";
  const time = e.time ? `<span class="meta" title="inclusive${e.self !== e.time ? `; ${duration(e.self)} of its own` : ""}">${duration(e.time)}</span>` : "";
  const stat = e.add + e.del ? `<span class="st"><b class="p">+${e.add}</b> <b class="m">−${e.del}</b></span>` : "";
  const no = e.s === "source" ? "" : R.cmp && e.ai !== e.bi ? `${e.ai < 0 ? "–" : e.ai}/${e.bi < 0 ? "–" : e.bi} ` : `${e.i} `;
  let html = `<div class="h1"><h2><span class="dim">${no}</span>${nameEsc(passName(e))}</h2><span class="bd ${cls}">${status}</span>` +
    (e.st && !isCuda(e) ? `<span class="stage">${esc(e.st)}</span>` : "") + stat + time + nested + `</div>`;
  if (e.doc) html += `<p class="doc">${esc(e.doc)}</p>`;
  if (e.note) html += `<p class="doc">${esc(e.note)}</p>`;
  if (e.err) html += `<pre class="err">${codeEsc(e.err)}</pre>`;
  for (const r of e.rem || []) {
    const place = r.line ? `${r.file || R.man.input_name || "source"}:${r.line}${r.col ? ":" + r.col : ""}` : r.file || "";
    const link = place && r.line && SOURCE ? `<button class="lnk" data-src="${r.line}">${esc(place)}</button>` : esc(place);
    html += `<p class="remark"><b>remark</b> ${codeEsc(r.text)}${place ? ` <span class="arrow">→</span> ${link}` : ""}</p>`;
  }
  el.innerHTML = html;
}

const sourceName = () => (R.man.input_name || "source").split(/[\\/]/).pop();
const spotLabel = (k) => (SPOT_OF.has(k) ? SPOTS[SPOT_OF.get(k)].label : k >= 0 && k === R.src ? "source" : "nothing");

function sideLabel(side) {
  const e = V.entry, k = stateOf(side);
  if (!e) return spotLabel(k);
  if (R.cmp) return side === "a" ? "A · " + R.cmp.a : "B · " + R.cmp.b;
  if (e.s === "source") return sourceName();
  if (isCuda(e) && side === "b") return "CUDA";
  if (isCuda(e)) return "IR before code generation";
  return side === "a" ? "before" : "after";
}

function showBar() {
  const L = $("labels");
  const n = (k) => (k >= 0 ? `<span class="dim">${ids(k).length.toLocaleString("en")} lines</span>` : "");
  const one = (side) => `<span class="lab">${esc(sideLabel(side))} ${n(stateOf(side))}</span>`;
  L.className = V.mode;
  if (V.mode === "split") L.innerHTML = one("a") + one("b");
  else if (V.mode === "plain") L.innerHTML = V.b < 0 ? one("a") : one("b");
  else L.innerHTML = `<span class="lab">${esc(sideLabel("a"))} → ${esc(sideLabel("b"))}</span>`;
  let note = "";
  if (V.a >= 0 && V.b >= 0) {
    const sameIds = V.a === V.b || (ids(V.a).length === ids(V.b).length && ids(V.a).every((x, i) => x === ids(V.b)[i]));
    if (sameIds && V.a !== V.b && STATES[V.a].nn !== STATES[V.b].nn) note = "The texts differ only in the final newline.";
    else if (sameIds) note = "No differences.";
    else if (V.model && !V.model.blocks.some((b) => !b.eq)) note = "No differences but in what is ignored.";
  } else if (V.entry && V.entry.s === "failed") note = "The pass failed: this is the text before it.";
  else if (V.entry && V.entry.s === "unfinished") note = "The run was cut off during this pass: this is the text before it.";
  if (!note && V.model && !V.stops.length && V.rows.some((r) => r.t === "host" && r.add + r.del)) note = "All that changed is host code, which is folded. (h shows it)";
  $("note").textContent = note;
  $("note").hidden = !note;
  $("pos").textContent = V.stops.length && !V.codegen ? `${V.stops.length} ${V.stops.length > 1 ? "changes" : "change"}` : "";
  for (const b of document.querySelectorAll("[data-view]")) b.setAttribute("aria-pressed", String((b.dataset.view === "split") === OPT.split));
}

function drawDetails() {
  const m = R.man, c = counts();
  const rows = [];
  const row = (k, v) => { if (v !== undefined && v !== null && v !== "") rows.push(`<tr><th scope="row">${k}</th><td>${v}</td></tr>`); };
  const code = (s) => (s ? `<code>${codeEsc(s)}</code>` : "");
  const opts = (o) => (o && o.length ? o.map((x) => code(`${x.name}=${x.value}`)).join("<br>") : "");
  const quote = (a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replace(/'/g, "'\\''")}'`);
  const run = (m) => {
    row("command", m.command && m.command.length ? code(m.command.map(quote).join(" ")) : "");
    row("version", m.tool ? esc(`${m.tool} ${m.tool_version || ""}`) : "");
    row("foreign trace", m.foreign ? esc(`left by ${m.foreign}`) : "");
    row("input", m.input_name ? code(m.input_name) : "");
    row("input hash", m.input_hash ? code("sha256:" + m.input_hash) : "");
    row("function", m.function ? code(m.function) : "");
    row("target", code(m.target));
    row("compiled for", code(m.arch));
    row("pipeline", code(m.pipeline));
    row("options", opts(m.options));
    row("imports", (m.imports || []).map((f) => `${code(f.name)} sha256:${esc((f.hash || "").slice(0, 12))}`).join("<br>"));
    row("pass config", opts(m.pass_config));
    row("generated files", (m.generated || []).map((g) => `${esc(g.kind)}: ${code(g.path)}`).join("<br>"));
    row("host", esc(m.host || ""));
    row("device", esc(m.device || ""));
    row("state", esc(m.state || ""));
    row("run", code(m.id));
    row("invocation", code(m.invocation_id));
  };
  let html = "";
  if (R.cmp) {
    row("A", esc(R.cmp.a));
    row("B", esc(R.cmp.b));
    for (const s of R.cmp.settings || []) row(esc(s.name), `${code(s.a) || "(none)"} → ${code(s.b) || "(none)"}`);
    html += `<table class="kv"><caption>What differs in the settings</caption>${rows.splice(0).join("")}</table>`;
    run(m);
    html += `<table class="kv"><caption>A</caption>${rows.splice(0).join("")}</table>`;
    run(R.cmp.bman || {});
    html += `<table class="kv"><caption>B</caption>${rows.splice(0).join("")}</table>`;
  } else {
    run(m);
    row("passes", `${c.passes}, of which ${c.changed} changed the IR`);
    row("texts", `${SPOTS.length.toLocaleString("en")} states of ${LINES.length.toLocaleString("en")} distinct lines`);
    html += `<table class="kv">${rows.join("")}</table>`;
  }
  const by = new Map();
  for (const e of ENTRIES) {
    if (!e.time) continue;
    const t = by.get(e.n) || { n: e.n, runs: 0, total: 0, self: 0 };
    t.runs++;
    t.self += e.self;
    let par = e, inside = false;
    while (par && par.par >= 0) {
      const up = ENTRIES.find((x) => x.i === par.par);
      if (!up || up.i >= par.i) break;
      if (up.n === e.n) inside = true;
      par = up;
    }
    if (!inside) t.total += e.time;
    by.set(e.n, t);
  }
  const times = [...by.values()].sort((x, y) => y.self - x.self).slice(0, 25);
  if (times.length) {
    html += `<table class="times"><caption>Time by pass</caption><thead><tr><th scope="col">pass</th><th scope="col">runs</th><th scope="col">inclusive</th><th scope="col">self</th><th scope="col">share</th></tr></thead><tbody>` +
      times.map((t) => `<tr><th scope="row">${esc(t.n)}</th><td>${t.runs}</td><td>${duration(t.total)}</td><td>${duration(t.self)}</td><td><span class="share" style="--w:${((100 * t.self) / c.time).toFixed(1)}%">${((100 * t.self) / c.time).toFixed(1)} %</span></td></tr>`).join("") + `</tbody></table>`;
  }
  $("detailbody").innerHTML = html;
}

async function copyText(s, what) {
  try {
    await navigator.clipboard.writeText(s);
  } catch {
    const t = document.createElement("textarea");
    t.value = s;
    document.body.append(t);
    t.select();
    document.execCommand("copy");
    t.remove();
  }
  say(`${what} copied`);
}

let sayTimer = 0;
function say(s) {
  const el = $("toast");
  el.textContent = s;
  el.classList.add("on");
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => el.classList.remove("on"), 1800);
}
