// The list of passes, and the minimap above the page.

const UNFOLDED = new Set(); // entries whose fold the reader opened
let LIST_ROWS = []; // entries in the order shown

const quiet = (e) => !e.c && e.s === "completed" && !(e.rem && e.rem.length);

function fuzzy(needle, hay) {
  const n = needle.toLowerCase(), h = hay.toLowerCase();
  const whole = h.indexOf(n);
  if (whole >= 0) return [...n].map((_, i) => whole + i);
  const at = [];
  let j = 0;
  for (const c of n) {
    j = h.indexOf(c, j);
    if (j < 0) return null;
    at.push(j++);
  }
  return at;
}

const STATUS_TEXT = { failed: "FAILED", skipped: "SKIPPED", codegen: "CODEGEN", unfinished: "CUT OFF" };

function badge(e) {
  if (R.cmp) {
    const t = { differs: "DIFFERS", "only-a": "only A", "only-b": "only B" }[e.kind];
    return t ? `<span class="bd ${e.kind}">${t}</span>` : "";
  }
  return STATUS_TEXT[e.s] ? `<span class="bd ${e.s}">${STATUS_TEXT[e.s]}</span>` : "";
}

function drawList() {
  const needle = $("filter").value.trim();
  const list = $("list");
  let html = "", group = null;
  LIST_ROWS = [];
  const most = Math.max(1, ...ENTRIES.map((e) => (isCuda(e) ? 0 : e.add + e.del)));
  const slow = Math.max(1, ...ENTRIES.map((e) => e.self));
  // A heading says the stage; the phase beside it where that changes. Stages alternate, so folds
  // run across them and only an item that is shown opens a group.
  let phase = null;
  const open = (e) => {
    const g = e.ph + " · " + (e.st || "");
    if (g === group || e.s === "source") return;
    if (group !== null) html += "</div>";
    group = g;
    const label = e.ph === "codegen" ? "code generation" : e.st || e.ph;
    const beside = e.ph !== phase && label !== e.ph && e.ph !== "codegen" ? `<span>${nameEsc(e.ph)}</span>` : "";
    phase = e.ph;
    html += `<div class="grp" role="group" aria-label="${esc(g)}"><div class="gl" role="presentation">${nameEsc(label)}${beside}</div>`;
  };
  const item = (e, hits) => {
    open(e);
    LIST_ROWS.push(e);
    let name = nameEsc(e.n);
    if (hits) name = [...e.n].map((c, i) => (hits.includes(i) ? `<mark>${nameEsc(c)}</mark>` : nameEsc(c))).join("");
    if (e.many && e.d === 0 && !R.cmp) name += `<span class="occ">#${e.occ}</span>`;
    const sum = e.add + e.del;
    const scale = isCuda(e) && !R.cmp ? 0 : Math.sqrt(sum / most);
    const stat = e.c && sum ? `<span class="st"><b class="p">+${e.add}</b> <b class="m">−${e.del}</b></span>` : "";
    const bar = scale ? `<span class="bar"><i class="a" style="width:${(31 * scale * e.add / sum).toFixed(1)}px"></i><i class="d" style="width:${(31 * scale * e.del / sum).toFixed(1)}px"></i></span>` : "";
    const time = e.self > slow / 50 ? `<span class="tm" title="${duration(e.self)} of its own" style="width:${(100 * e.self / slow).toFixed(1)}%"></span>` : "";
    const rem = e.rem && e.rem.length ? `<span class="rm" title="${esc(e.rem[0].text)}">${e.rem.length > 1 ? e.rem.length + " " : ""}remark${e.rem.length > 1 ? "s" : ""}</span>` : "";
    const no = e.s === "source" ? "" : R.cmp && e.ai !== e.bi ? `${e.ai < 0 ? "–" : e.ai}/${e.bi < 0 ? "–" : e.bi}` : e.i;
    html += `<div class="it ${e.c && e.kind !== "inherits" ? "chg" : "no"} ${e.s}" role="option" id="it${e.n0}" data-n="${e.n0}" style="--d:${Math.min(e.d, 6)}" aria-selected="${e === V.entry}">` +
      `<span class="no">${no}</span><span class="nm" title="${esc(e.n)}">${name}</span>${rem}${badge(e)}${stat}${bar}${time}</div>`;
  };
  if (needle) {
    let n = 0;
    for (const e of ENTRIES) {
      const hits = fuzzy(needle, e.n);
      if (hits) { item(e, hits); n++; }
    }
    if (!n) html += `<p class="empty">No pass is named like that.</p>`;
  } else
    for (let i = 0; i < ENTRIES.length; ) {
      let j = i;
      while (j < ENTRIES.length && quiet(ENTRIES[j]) && ENTRIES[j].ph === ENTRIES[i].ph) j++;
      if (j - i < 2 || UNFOLDED.has(ENTRIES[i])) {
        const end = Math.max(j, i + 1);
        for (; i < end; i++) item(ENTRIES[i]);
        continue;
      }
      const names = ENTRIES.slice(i, j).map((e) => e.n).join(", ");
      html += `<div class="it fold" role="option" aria-selected="false" data-fold="${i}" data-end="${j}" title="${esc(names)}"><span class="no">·</span><span class="nm">${j - i} ${R.cmp ? "the same" : "no effect"}</span></div>`;
      i = j;
    }
  if (group !== null) html += "</div>";
  list.innerHTML = html;
  markCurrent(false);
}

function markCurrent(scroll = true) {
  const list = $("list");
  for (const el of list.querySelectorAll('[aria-selected="true"]')) el.setAttribute("aria-selected", "false");
  if (!V.entry) { list.removeAttribute("aria-activedescendant"); return; }
  let el = $("it" + V.entry.n0);
  if (!el && !$("filter").value.trim()) {
    for (const f of list.querySelectorAll(".fold")) {
      if (V.entry.n0 >= +f.dataset.fold && V.entry.n0 < +f.dataset.end) {
        UNFOLDED.add(ENTRIES[+f.dataset.fold]);
        drawList();
        return markCurrent(scroll);
      }
    }
  }
  if (!el) return;
  el.setAttribute("aria-selected", "true");
  list.setAttribute("aria-activedescendant", el.id);
  if (scroll) el.scrollIntoView({ block: "nearest" });
}

function duration(us) {
  const ms = us / 1000;
  if (ms >= 1000) return (ms / 1000).toFixed(1) + " s";
  if (ms >= 100) return ms.toFixed(0) + " ms";
  return ms.toFixed(ms < 0.05 ? 2 : 1) + " ms";
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// drawMap paints a tick for each pass: lines added upwards, deleted downwards.
function drawMap() {
  const cv = $("map"), w = cv.clientWidth, h = cv.clientHeight, dpr = window.devicePixelRatio || 1;
  if (!w || !h) return;
  cv.width = w * dpr;
  cv.height = h * dpr;
  const g = cv.getContext("2d");
  g.scale(dpr, dpr);
  const n = ENTRIES.length;
  if (!n) return;
  const col = { add: cssColor("--add-ink"), del: cssColor("--del-ink"), dim: cssColor("--line"), dot: cssColor("--faint"), cur: cssColor("--accent"), sel: cssColor("--sel"), fail: cssColor("--fail"), cg: cssColor("--accent") };
  const step = w / n, base = Math.round(h * 0.58);
  const most = Math.max(1, ...ENTRIES.map((e) => (isCuda(e) && !R.cmp ? 0 : Math.max(e.add, e.del))));
  const scale = (v, room) => (v ? Math.max(2, Math.sqrt(v / most) * room) : 0);
  let group = null;
  ENTRIES.forEach((e, i) => {
    const x = i * step, bw = Math.max(1, Math.min(10, step - 1));
    const cx = x + (step - bw) / 2;
    if (e === V.entry) {
      g.fillStyle = col.sel;
      g.fillRect(x - 1, 0, Math.max(step + 2, 6), h);
    }
    const gr = e.ph;
    if (gr !== group && group !== null) {
      g.fillStyle = col.dim;
      g.fillRect(Math.round(x), 4, 1, h - 8);
    }
    group = gr;
    if (e.s === "failed" || e.s === "unfinished") {
      g.fillStyle = col.fail;
      g.fillRect(cx, 4, bw, h - 8);
    } else if (isCuda(e) && !R.cmp) {
      g.fillStyle = col.cg;
      g.fillRect(cx, 6, bw, h - 12);
    } else if (e.c) {
      const up = scale(e.add, base - 3), dn = scale(e.del, h - base - 3);
      g.fillStyle = col.add;
      g.fillRect(cx, base - up, bw, up);
      g.fillStyle = col.del;
      g.fillRect(cx, base + 1, bw, dn);
      if (!up && !dn) g.fillRect(cx, base - 1, bw, 3);
    } else {
      g.fillStyle = col.dot;
      g.fillRect(cx, base, bw, 1);
    }
    if (e === V.entry) {
      g.fillStyle = col.cur;
      g.fillRect(x - 1, h - 2, Math.max(step + 2, 6), 2);
    }
  });
}

function mapEntry(ev) {
  const r = $("map").getBoundingClientRect();
  return ENTRIES[Math.max(0, Math.min(ENTRIES.length - 1, Math.floor(((ev.clientX - r.left) / r.width) * ENTRIES.length)))];
}

// step finds the next entry in a direction; changed ones only, unless all is set.
function stepEntry(dir, all) {
  let i = V.entry ? V.entry.n0 : -1;
  for (i += dir; i >= 0 && i < ENTRIES.length; i += dir) {
    const e = ENTRIES[i];
    if (all || !quiet(e) && e.s !== "source") return e;
  }
  return null;
}
