// The comparison on screen. Rows are grouped into blocks; a block's rows exist only near the
// viewport, so that states of many thousand lines stay light.

const BLOCK = 40; // rows
const $ = (id) => document.getElementById(id);

const OPT_DEFAULTS = { split: true, wrap: true, space: false, names: false, host: false, syntax: true, context: 3, palette: "green-red" };
const OPT = { ...OPT_DEFAULTS };
const CUDA_STATES = new Set();

const V = {
  a: -1, b: -1, entry: null, mode: "split", model: null, rows: [], blocks: [], stops: [],
  sel: null, // {side, line}
  cur: -1, // row under the keyboard
  find: "", align: null, lh: 20, cw: 7.5, observer: null, forced: new Map(),
};

function measure() {
  const probe = document.createElement("span");
  probe.className = "probe";
  probe.textContent = "0".repeat(100);
  $("diff").append(probe);
  V.cw = probe.getBoundingClientRect().width / 100 || 7.5;
  V.lh = probe.getBoundingClientRect().height || 20;
  probe.remove();
}

// showStates puts states a and b on screen.
function showStates(a, b, entry) {
  V.a = a;
  V.b = b;
  V.entry = entry;
  V.sel = null;
  V.cur = -1;
  const codegen = entry && isCuda(entry) && a >= 0 && b >= 0 && !R.cmp;
  V.codegen = codegen || (a >= 0 && b >= 0 && CUDA_STATES.has(a) !== CUDA_STATES.has(b));
  const key = a + ":" + b;
  const plain = a < 0 || b < 0 || a === b;
  V.model = plain ? null : compareModel(a, b, OPT, V.forced.get(key));
  relayout(true);
}

function relayout(top) {
  const diff = $("diff");
  const keep = top ? null : firstVisibleRow();
  const narrow = $("mid").clientWidth < 640;
  V.mode = !V.model || (V.codegen && !(OPT.split && !narrow)) ? "plain" : OPT.split && !narrow ? "split" : "unified";
  if (V.model) {
    if (V.mode === "plain") V.rows = plainRows(V.b);
    else V.rows = rowsOf(V.model, { ...OPT, split: V.mode === "split" });
  } else V.rows = plainRows(V.b >= 0 ? V.b : V.a);
  diff.className = `${V.mode} ${OPT.wrap ? "wrap" : "nowrap"}${V.codegen ? " parallel" : ""}${OPT.syntax ? "" : " nosyn"}`;
  diff.setAttribute("aria-rowcount", V.rows.length);
  if (V.observer) V.observer.disconnect();
  diff.textContent = "";
  diff.scrollTop = 0;
  measure();
  V.blocks = [];
  V.observer = new IntersectionObserver(onIntersect, { root: diff, rootMargin: "900px 0px" });
  const side = V.mode === "split" ? 0.5 : 1;
  const cols = Math.max(10, Math.floor((diff.clientWidth * side - 76) / V.cw));
  const frag = document.createDocumentFragment();
  for (let i = 0; i < V.rows.length; i += BLOCK) {
    const el = document.createElement("div");
    el.className = "blk";
    el.setAttribute("role", "rowgroup");
    el.dataset.k = V.blocks.length;
    let h = 0;
    const end = Math.min(i + BLOCK, V.rows.length);
    for (let k = i; k < end; k++) h += rowHeight(V.rows[k], cols);
    el.style.height = h + "px";
    V.blocks.push({ el, from: i, to: end, live: false });
    frag.append(el);
  }
  diff.append(frag);
  if (!V.rows.length) diff.innerHTML = '<p class="empty">Nothing was recorded here.</p>';
  for (const b of V.blocks) V.observer.observe(b.el);
  for (const b of V.blocks.slice(0, 2)) fill(b);
  V.stops = [];
  V.rows.forEach((r, i) => {
    const c = /add|del|chg|ws|eol/.test(r.t);
    const p = i && /add|del|chg|ws|eol/.test(V.rows[i - 1].t);
    if (c && !p) V.stops.push(i);
  });
  setScrollWidth();
  if (keep) scrollToLine(keep.side, keep.line, "start");
  showBar();
  markRuler();
}

function plainRows(k) {
  const n = ids(k).length, out = [];
  const hosts = !OPT.host && k >= 0 && !V.hostPlain ? functionsOf(k).filter((f) => f.host) : [];
  for (let i = 0; i < n; i++) {
    const h = hosts.find((f) => f.from === i);
    if (h) {
      out.push({ t: "host", a: -1, b: -1, n: h.to - h.from, add: 0, del: 0 });
      i = h.to - 1;
      continue;
    }
    out.push({ t: "eq", a: V.b < 0 ? i : -1, b: V.b < 0 ? -1 : i });
  }
  return out;
}

const stateOf = (side) => (side === "a" ? V.a : V.b);
const lineText = (side, i) => LINES[ids(stateOf(side))[i]];

function rowHeight(r, cols) {
  if (r.t === "gap" || r.t === "host") return 32;
  if (!OPT.wrap) return V.lh;
  let n = 1;
  if (r.a >= 0) n = Math.max(n, Math.ceil(lineText("a", r.a).length / cols));
  if (r.b >= 0) n = Math.max(n, Math.ceil(lineText("b", r.b).length / cols));
  return n * V.lh;
}

function onIntersect(list) {
  for (const x of list) {
    const b = V.blocks[+x.target.dataset.k];
    if (!b || b.el !== x.target) continue;
    if (x.isIntersecting) fill(b);
    else if (b.live) {
      b.el.style.height = b.el.offsetHeight + "px";
      b.el.textContent = "";
      b.live = false;
    }
  }
}

function fill(b) {
  if (b.live) return;
  b.live = true;
  let html = "";
  for (let i = b.from; i < b.to; i++) html += rowHTML(V.rows[i], i);
  b.el.innerHTML = html;
  b.el.style.height = "";
}

// redraw renders the live blocks anew, after marks have changed.
function redraw() {
  for (const b of V.blocks) if (b.live) { b.live = false; fill(b); }
}

function marksFor(r, side) {
  const line = side === "a" ? r.a : r.b;
  const s = lineText(side, line);
  const out = [];
  if (r.t === "chg" && !r.loose && !V.codegen) {
    const a = r.side === "b" ? r.pair : r.a, b = r.side === "a" ? r.pair : r.b;
    if (a >= 0 && b >= 0) {
      const key = ids(V.a)[a] + ":" + ids(V.b)[b];
      let m = WORDS.get(key);
      if (!m) {
        if (WORDS.size > 20000) WORDS.clear();
        m = wordMarks(lineText("a", a), lineText("b", b));
        WORDS.set(key, m);
      }
      for (const [f, t] of m[side === "a" ? 0 : 1]) {
        const x = s.slice(f, t), lead = x.length - x.trimStart().length;
        if (x.trim()) out.push([f + lead, f + x.trimEnd().length, "w"]);
      }
    }
  }
  if (F.name) out.push(...wordRanges(s, F.name, F.loose, "fl"));
  if (V.find) out.push(...findRanges(s, V.find));
  return out;
}
const WORDS = new Map();

function cell(r, side) {
  const line = side === "a" ? r.a : r.b;
  if (line < 0) return `<span class="ln" role="rowheader"></span><code class="x void" role="cell"></code>`;
  const k = stateOf(side), s = lineText(side, line);
  const ind = Math.min(/^\s*/.exec(s)[0].length + 4, 48);
  const noEnd = STATES[k].nn && line === ids(k).length - 1 ? ' <i class="ctl">no line end</i>' : "";
  const f = F.lines ? F.lines.get(k)?.get(line) : undefined;
  const cls = f === undefined ? "" : f ? " fl" : " fl guess";
  return `<span class="ln${cls}" role="rowheader" data-s="${side}" data-l="${line}">${line + 1}</span><code class="x ${side}" role="cell"><span class="tx" style="--i:${ind}">${lineHTML(s, CUDA_STATES.has(k), marksFor(r, side))}${noEnd}</span></code>`;
}

const TYPE_LABEL = { add: "added", del: "deleted", chg: "changed", ws: "white space changed", eol: "line end changed" };

function rowHTML(r, i) {
  if (r.t === "gap") {
    const scope = r.g1 < V.model.ia.length ? scopeOf(V.model, r.g1) : "";
    const up = r.first ? "" : `<button class="gx" data-gap="${i}" data-d="down" aria-label="Show ${GAP_STEP} more lines below the change above" title="Show more below">↓</button>`;
    const dn = r.last ? "" : `<button class="gx" data-gap="${i}" data-d="up" aria-label="Show ${GAP_STEP} more lines above the change below" title="Show more above">↑</button>`;
    return `<div class="r gap" role="row" aria-rowindex="${i + 1}" data-i="${i}"><span role="rowheader" class="gb">${up}${dn}</span><span role="cell" class="gt"><button class="ga" data-gap="${i}" data-d="all">${r.n.toLocaleString("en")} unchanged lines</button><span class="scope">${codeEsc(scope)}</span></span></div>`;
  }
  if (r.t === "host") {
    const stat = r.add + r.del ? ` <span class="p">+${r.add}</span> <span class="m">−${r.del}</span>` : "";
    return `<div class="r gap host" role="row" aria-rowindex="${i + 1}" data-i="${i}"><span role="rowheader" class="gb"></span><span role="cell" class="gt"><button class="gh">Host code, ${r.n.toLocaleString("en")} lines${stat}</button></span></div>`;
  }
  let cls = `r ${r.t}${r.side ? " s" + r.side : ""}`;
  if (V.sel && ((V.sel.side === "a" && r.a === V.sel.line) || (V.sel.side === "b" && r.b === V.sel.line))) cls += " sel";
  if (i === V.cur) cls += " cur";
  const label = TYPE_LABEL[r.t] ? ` aria-label="${TYPE_LABEL[r.t]}"` : "";
  let cells;
  if (V.mode === "split") cells = cell(r, "a") + cell(r, "b");
  else if (V.mode === "plain") cells = cell(r, V.b < 0 ? "a" : "b");
  else {
    const ln = (s, l) => `<span class="ln${l >= 0 ? "" : " none"}" role="rowheader"${l >= 0 ? ` data-s="${s}" data-l="${l}"` : ""}>${l >= 0 ? l + 1 : ""}</span>`;
    const side = r.b >= 0 ? "b" : "a";
    const c = cell(r, side);
    cells = ln("a", r.a) + ln("b", r.b) + c.slice(c.indexOf("<code"));
  }
  return `<div class="${cls}" role="row" aria-rowindex="${i + 1}" data-i="${i}"${label}>${cells}</div>`;
}

function rowOfLine(side, line) {
  return V.rows.findIndex((r) => (side === "a" ? r.a : r.b) === line);
}

// reveal opens folds until a line has a row.
function reveal(side, line) {
  let i = rowOfLine(side, line);
  if (i >= 0 || !V.model) {
    if (i < 0 && !V.model) { V.hostPlain = true; relayout(false); i = rowOfLine(side, line); }
    return i;
  }
  const m = V.model;
  m.blocks.forEach((bl, n) => {
    const [f, t] = side === "a" ? [bl.a0, bl.a1] : [bl.b0, bl.b1];
    if (line >= f && line < t && bl.eq) m.open.set(n, { all: true, top: 0, bottom: 0 });
  });
  if (inRanges(side === "a" ? m.ha : m.hb, line)) m.hostOpen = true;
  relayout(false);
  return rowOfLine(side, line);
}

function scrollToRow(i, where = "center") {
  if (i < 0 || i >= V.rows.length) return;
  const b = V.blocks[Math.floor(i / BLOCK)];
  fill(b);
  const go = () => {
    const el = b.el.querySelector(`[data-i="${i}"]`);
    if (!el) return;
    const box = $("diff").getBoundingClientRect(), r = el.getBoundingClientRect();
    const want = where === "start" ? 8 : Math.max(8, box.height * 0.3);
    $("diff").scrollTop += r.top - box.top - want;
  };
  go();
  requestAnimationFrame(go); // once more when the blocks on the way have their true heights
}

function scrollToLine(side, line, where) {
  const i = rowOfLine(side, line);
  if (i >= 0) scrollToRow(i, where);
}

function firstVisibleRow() {
  if (!$("diff").scrollTop) return null;
  const box = $("diff").getBoundingClientRect();
  for (const b of V.blocks) {
    if (!b.live || b.el.getBoundingClientRect().bottom < box.top) continue;
    for (const el of b.el.children) {
      if (el.getBoundingClientRect().top < box.top) continue;
      const r = V.rows[+el.dataset.i];
      if (!r || (r.a < 0 && r.b < 0)) continue;
      return r.b >= 0 ? { side: "b", line: r.b } : { side: "a", line: r.a };
    }
  }
  return null;
}

// selectLine marks a line, opens its fold and brings it into view.
function selectLine(side, line, quiet) {
  const i = reveal(side, line);
  V.sel = { side, line };
  V.cur = i;
  redraw();
  if (!quiet) scrollToRow(i);
}

function setCur(i) {
  i = Math.max(0, Math.min(V.rows.length - 1, i));
  const old = V.cur;
  V.cur = i;
  for (const k of [old, i]) document.querySelector(`#diff [data-i="${k}"]`)?.classList.toggle("cur", k === i);
  const b = V.blocks[Math.floor(i / BLOCK)];
  if (!b) return;
  fill(b);
  const el = b.el.querySelector(`[data-i="${i}"]`);
  if (el) {
    el.classList.add("cur");
    el.scrollIntoView({ block: "nearest" });
  }
}

// nextChange moves to the next or previous change on screen; at the end it says so by false.
function nextChange(dir) {
  if (!V.stops.length) return false;
  let at = V.cur;
  if (at < 0) {
    const top = firstVisibleRow();
    at = top ? rowOfLine(top.side, top.line) - (dir > 0 ? 1 : 0) : -1; // at the top: before the first
  }
  const next = dir > 0 ? V.stops.find((s) => s > at) : V.stops.filter((s) => s < at).pop();
  if (next === undefined) return false;
  setCur(next);
  scrollToRow(next);
  return true;
}

function expandAll() {
  if (!V.model) return;
  V.model.allOpen = !V.model.allOpen;
  relayout(false);
  say(V.model.allOpen ? "All unchanged lines shown" : "Unchanged lines folded");
}

function openGap(i, how) {
  const r = V.rows[i], m = V.model;
  const o = { top: 0, bottom: 0, ...m.open.get(r.blk) };
  if (how === "down") o.top += GAP_STEP;
  if (how === "up") o.bottom += GAP_STEP;
  if (how === "all") o.all = true;
  m.open.set(r.blk, o);
  const top = $("diff").scrollTop;
  relayout(false);
  $("diff").scrollTop = top;
}

function setScrollWidth() {
  const hs = $("hs");
  document.documentElement.style.setProperty("--sx", "0px");
  if (OPT.wrap) { hs.hidden = true; return; }
  let longest = 0;
  for (const r of V.rows) {
    if (r.a >= 0) longest = Math.max(longest, lineText("a", r.a).length);
    if (r.b >= 0) longest = Math.max(longest, lineText("b", r.b).length);
  }
  const view = $("diff").clientWidth * (V.mode === "split" ? 0.5 : 1) - 90;
  const need = Math.min(longest, SHOWN_CHARS) * V.cw;
  hs.hidden = need <= view;
  hs.firstElementChild.style.width = $("diff").clientWidth + Math.max(0, need - view) + "px";
  hs.scrollLeft = 0;
}

// markRuler paints where the changes are along the scroll bar.
function markRuler() {
  const el = $("ruler");
  el.textContent = "";
  const n = V.rows.length;
  if (!V.model || V.codegen || n < 30) return;
  let html = "";
  for (let i = 0; i < n; ) {
    const t = V.rows[i].t;
    if (!/add|del|chg|ws|eol/.test(t)) { i++; continue; }
    let j = i;
    while (j < n && V.rows[j].t === t) j++;
    html += `<i class="${t}" style="top:${((100 * i) / n).toFixed(2)}%;height:max(2px,${((100 * (j - i)) / n).toFixed(2)}%)"></i>`;
    i = j;
    if (html.length > 60000) break;
  }
  el.innerHTML = html;
}

// word under a point of the page
function wordAt(x, y) {
  let node, off;
  if (document.caretPositionFromPoint) {
    const p = document.caretPositionFromPoint(x, y);
    if (p) [node, off] = [p.offsetNode, p.offset];
  } else if (document.caretRangeFromPoint) {
    const p = document.caretRangeFromPoint(x, y);
    if (p) [node, off] = [p.startContainer, p.startOffset];
  }
  if (!node || node.nodeType !== 3) return "";
  const t = node.closest ? node : node.parentElement?.closest(".tx");
  if (!t) return "";
  // A word may be cut into several elements by marks: read the line's whole text.
  let at = off, text = "";
  const walk = document.createTreeWalker(t, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    if (n === node) at = text.length + off;
    text += n.textContent;
  }
  NAME_RE.lastIndex = 0;
  let m;
  while ((m = NAME_RE.exec(text))) if (m.index <= at && at <= m.index + m[0].length) return m[0];
  return "";
}
