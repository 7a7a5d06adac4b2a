// Wiring: what is shown follows the address (#pass=…&side=…&line=…&follow=…&left=…&right=…), and
// every control changes the address or a view option.

const store = {
  get(k) { try { return localStorage.getItem("lowertrace." + k); } catch { return null; } },
  set(k, v) { try { localStorage.setItem("lowertrace." + k, v); } catch { /* private mode: kept for this page only */ } },
};

const parseHash = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const hashOf = (q) => "#" + new URLSearchParams(Object.entries(q).filter(([, v]) => v !== undefined && v !== "" && v !== null)).toString();

// go shows what the query says, and puts it into the address.
function go(q, replace) {
  const h = hashOf(q);
  if (h !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", h);
  route(q);
}

function here(extra) {
  const q = parseHash();
  return { pass: q.pass, left: q.left, right: q.right, ...extra };
}

const entryOf = (key) => ENTRIES.find((e) => e.key === key) || ENTRIES.find((e) => e.n === key || passName(e) === key);

function route(q) {
  if (q.left !== undefined && q.right !== undefined && STATES[q.left] && STATES[q.right]) {
    if (V.entry || V.a !== +q.left || V.b !== +q.right) showStates(+q.left, +q.right, null);
  } else {
    const e = entryOf(q.pass) || firstEntry();
    if (e && (e !== V.entry || V.a !== (e.b ?? -1) || V.b !== (e.a ?? -1))) {
      V.hostPlain = false;
      showStates(e.b ?? -1, e.a ?? -1, e);
    }
  }
  const side = q.side === "a" ? "a" : "b";
  const k = stateOf(side);
  if (q.line && k >= 0 && +q.line >= 1 && +q.line <= ids(k).length) {
    followLine(k, +q.line - 1, side);
    selectLine(side, +q.line - 1);
  } else if (q.follow && isName(q.follow)) {
    V.sel = null;
    followName(q.follow);
    redraw();
    const hit = V.rows.findIndex((r) => /add|del|chg|ws/.test(r.t) && ["a", "b"].some((s) => r[s] >= 0 && wordRanges(lineText(s, r[s]), F.name, F.loose, "").length));
    if (q.at && V.b >= 0) scrollToLine(q.side === "a" ? "a" : "b", reveal(q.side === "a" ? "a" : "b", +q.at - 1) >= 0 ? +q.at - 1 : 0);
    else if (hit >= 0) scrollToRow(hit);
  } else if (F.name || F.lines) closeFollow();
  else if (V.sel) { V.sel = null; redraw(); }
  drawHead();
  showBar();
  drawOutline();
  markCurrent();
  drawMap();
  $("prev").disabled = !stepEntry(-1, true);
  $("next").disabled = !stepEntry(1, true);
  document.title = (V.entry ? `${passName(V.entry)} · ` : "") + BASE_TITLE;
}
const BASE_TITLE = document.title;

function firstEntry() {
  if (R.cmp && R.cmp.first >= 0) return ENTRIES[R.cmp.first];
  return ENTRIES.find((e) => e.c && e.d === 0 && !isCuda(e)) || ENTRIES.find((e) => e.c) || ENTRIES.find((e) => e.s === "failed") || ENTRIES.find((e) => e.s !== "source") || ENTRIES[0];
}

function setOption(name, value) {
  OPT[name] = value;
  store.set(name, JSON.stringify(value));
  document.documentElement.dataset.palette = OPT.palette;
  syncOptions();
  if (name === "space" || name === "names") showStates(V.a, V.b, V.entry);
  else relayout(false);
  drawMap();
}

function syncOptions() {
  for (const el of document.querySelectorAll("[data-opt]")) {
    const v = OPT[el.dataset.opt];
    if (el.type === "checkbox") el.checked = v;
    else el.value = String(v);
  }
}

const HELP = [
  ["j / k", "next / previous pass that changed something"],
  ["J / K", "next / previous pass, changed or not"],
  ["n / p", "next / previous change in this pass"],
  ["g / G", "first / last pass"],
  ["/", "find in all passes"],
  ["f", "filter the list of passes"],
  ["v", "follow a name"],
  ["Enter", "follow the line under the cursor"],
  ["↑ / ↓", "move the cursor (in the comparison)"],
  ["o", "outline: functions, buffers, loops, operators"],
  ["u", "side by side or unified"],
  ["w", "wrap long lines"],
  ["s", "ignore white space"],
  ["r", "ignore renamed suffixes (x_1, x_2)"],
  ["h", "show or fold host code"],
  ["Shift+E", "show all unchanged lines, or fold them"],
  ["F7", "align by hand: pick a line on the left, then one on the right"],
  ["c", "compare any two states"],
  ["i", "about this run"],
  ["y", "copy the link to what you see"],
  ["d", "dark or light"],
  ["Esc", "close, or leave follow"],
];

function toggleTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  store.set("theme", document.documentElement.dataset.theme);
  drawMap();
}

function openDialog(id) {
  const d = $(id);
  if (id === "details") drawDetails();
  if (id === "compare") fillCompare();
  if (!d.open) d.showModal();
}

function drawer(open) {
  document.body.classList.toggle("drawer", open);
  $("menu").setAttribute("aria-expanded", String(open));
}

// F7: two lines chosen by hand are set side by side.
function alignKey() {
  if (!V.model) return say("There is nothing to align here");
  if (V.align) {
    if (V.align.a !== undefined && V.align.step === "a") {
      V.align.step = "b";
      return alignSay();
    }
    return alignEnd();
  }
  V.align = { step: "a" };
  if (V.sel && V.sel.side === "a") V.align.a = V.sel.line;
  alignSay();
}

function alignSay() {
  const el = $("alignbar");
  el.hidden = false;
  el.innerHTML = V.align.step === "a"
    ? `Align: choose a line of the <b>left</b> side${V.align.a !== undefined ? ` (now ${V.align.a + 1}; F7 takes it)` : ""}. Esc leaves.`
    : `Line ${V.align.a + 1}: now choose its line of the <b>right</b> side. Esc leaves.`;
}

function alignEnd() {
  V.align = null;
  $("alignbar").hidden = true;
}

function alignPick(side, line) {
  if (side === "a") {
    V.align.a = line;
    V.align.step = "b";
    return alignSay();
  }
  if (V.align.a === undefined) return alignSay();
  const key = V.a + ":" + V.b;
  const list = (V.forced.get(key) || []).filter(([x, y]) => x !== V.align.a && y !== line && (x < V.align.a) === (y < line));
  list.push([V.align.a, line]);
  V.forced.set(key, list);
  const a = V.align.a;
  alignEnd();
  showStates(V.a, V.b, V.entry);
  scrollToLine("a", a);
  say(`Line ${a + 1} aligned with line ${line + 1}`);
}

function leaveFollow() {
  closeFollow();
  go(here({}));
}

function pickLine(side, line) {
  if (V.align) return alignPick(side, line);
  go(here({ side, line: line + 1 }));
}

function onDiffClick(ev) {
  const gap = ev.target.closest("[data-gap]");
  if (gap) return openGap(+gap.dataset.gap, gap.dataset.d);
  if (ev.target.closest(".gh")) {
    if (V.model) V.model.hostOpen = true;
    else V.hostPlain = true;
    return relayout(false);
  }
  const ln = ev.target.closest(".ln[data-l]");
  if (ln) return pickLine(ln.dataset.s, +ln.dataset.l);
  const t = ev.target.closest(".tx");
  if (!t || String(getSelection())) return;
  if (V.align) {
    const cell = t.closest("code"), n = cell.previousElementSibling;
    if (n && n.dataset.l !== undefined) return alignPick(n.dataset.s, +n.dataset.l);
  }
  const w = wordAt(ev.clientX, ev.clientY);
  if (w && !IR_WORDS.has(w) && !CU_WORDS.has(w) && w !== "T" && w !== "I") go(here({ follow: w }));
}

function moveTo(e) {
  if (!e) return;
  const q = { pass: e.key };
  if (F.name) q.follow = F.name;
  go(q);
}

function onKey(ev) {
  if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
  const t = ev.target;
  const typing = t.matches("input[type=search],input[type=text],textarea,select");
  if (ev.key === "Escape") {
    if (document.querySelector("dialog[open]")) return; // it closes by itself
    if (V.align) alignEnd();
    else if (!$("results").hidden) { $("results").hidden = true; $("q").setAttribute("aria-expanded", "false"); }
    else if (typing) {
      if (t.id === "filter" && t.value) { t.value = ""; drawList(); }
      if (t.id === "q" && t.value) { t.value = Q.text = ""; search(); }
      t.blur();
      $("diff").focus();
    }
    else if (document.body.classList.contains("drawer")) drawer(false);
    else if (!$("follow").hidden) leaveFollow();
    else if (OUTLINE.open) toggleOutline();
    else return;
    ev.preventDefault();
    return;
  }
  if (t.id === "q" && (ev.key === "ArrowDown" || ev.key === "ArrowUp" || ev.key === "Enter")) {
    const items = [...document.querySelectorAll("#results .ri")];
    let at = items.findIndex((x) => x.getAttribute("aria-selected") === "true");
    if (ev.key === "Enter") pickResult(at >= 0 ? +items[at].dataset.r : 0);
    else if (items.length) {
      if (at >= 0) items[at].setAttribute("aria-selected", "false");
      at = (at + (ev.key === "ArrowDown" ? 1 : -1) + items.length) % items.length;
      items[at].setAttribute("aria-selected", "true");
      items[at].scrollIntoView({ block: "nearest" });
      t.setAttribute("aria-activedescendant", items[at].id);
    }
    ev.preventDefault();
    return;
  }
  if (t.id === "filter" && (ev.key === "Enter" || ev.key === "ArrowDown")) {
    if (LIST_ROWS.length && ev.key === "Enter") moveTo(LIST_ROWS[0]);
    $("list").focus();
    ev.preventDefault();
    return;
  }
  if (typing || document.querySelector("dialog[open]")) return;
  if (t.id === "list" && /^(Arrow(Up|Down)|Home|End|Enter)$/.test(ev.key)) {
    const at = LIST_ROWS.indexOf(V.entry);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: LIST_ROWS.length - 1, Enter: at }[ev.key];
    if (LIST_ROWS[next]) moveTo(LIST_ROWS[next]);
    if (ev.key === "Enter") $("diff").focus();
    ev.preventDefault();
    return;
  }
  if (t.id === "diff" && (ev.key === "ArrowDown" || ev.key === "ArrowUp")) {
    const top = V.cur < 0 ? firstVisibleRow() : null;
    setCur(V.cur < 0 ? (top ? rowOfLine(top.side, top.line) : 0) : V.cur + (ev.key === "ArrowDown" ? 1 : -1));
    ev.preventDefault();
    return;
  }
  if (ev.key === "Enter" && V.cur >= 0 && !t.closest("button")) {
    const r = V.rows[V.cur];
    if (r.t === "gap") openGap(V.cur, "all");
    else if (r.t === "host") document.querySelector(`#diff [data-i="${V.cur}"] .gh`)?.click();
    else if (r.b >= 0 && !(V.align && V.align.step === "a")) pickLine("b", r.b);
    else if (r.a >= 0) pickLine("a", r.a);
    ev.preventDefault();
    return;
  }
  const act = {
    j: () => moveTo(stepEntry(1)), k: () => moveTo(stepEntry(-1)),
    J: () => moveTo(stepEntry(1, true)), K: () => moveTo(stepEntry(-1, true)),
    n: () => nextChange(1) || say("No further change in this pass"), p: () => nextChange(-1) || say("No earlier change in this pass"),
    g: () => moveTo(ENTRIES[0]), G: () => moveTo(ENTRIES[ENTRIES.length - 1]),
    "/": () => { $("q").focus(); $("q").select(); },
    f: () => { if (innerWidth < 900) drawer(true); $("filter").focus(); },
    v: () => { $("follow").hidden = false; document.body.classList.add("following"); $("followname").focus(); },
    o: toggleOutline,
    u: () => setOption("split", !OPT.split), w: () => setOption("wrap", !OPT.wrap),
    s: () => setOption("space", !OPT.space), r: () => setOption("names", !OPT.names), h: () => setOption("host", !OPT.host),
    E: expandAll, F7: alignKey, c: () => openDialog("compare"), i: () => openDialog("details"),
    "?": () => openDialog("help"), y: () => copyText(location.href, "Link"), d: toggleTheme,
  }[ev.key];
  if (!act) return;
  ev.preventDefault();
  act();
}

function start() {
  loadChunks();
  if (R.src >= 0) {
    SOURCE = { key: "src", n: "Source", i: -1, s: "source", ph: "", b: -1, a: R.src, d: 0, par: -1, add: 0, del: 0, time: 0, self: 0 };
    ENTRIES.unshift(SOURCE);
    ENTRIES.forEach((e, i) => (e.n0 = i));
  }
  findSpots();
  for (const e of ENTRIES) {
    if (!isCuda(e)) continue;
    if (e.a >= 0) CUDA_STATES.add(e.a);
    if (R.cmp && e.b >= 0) CUDA_STATES.add(e.b);
  }
  for (const k of Object.keys(OPT_DEFAULTS)) {
    const v = store.get(k);
    if (v === null) continue;
    try { const p = JSON.parse(v); if (typeof p === typeof OPT_DEFAULTS[k]) OPT[k] = p; } catch { /* an older version's value */ }
  }
  const theme = store.get("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.palette = OPT.palette;
  document.body.classList.toggle("cmp", !!R.cmp);
  syncOptions();
  drawHeader();
  $("keys").innerHTML = HELP.map(([k, d]) => `<tr><th scope="row">${k.split(" / ").map((x) => `<kbd>${esc(x)}</kbd>`).join(" ")}</th><td>${esc(d)}</td></tr>`).join("");
  if (!ENTRIES.length) {
    $("diff").innerHTML = '<p class="empty">No pass has finished yet.</p>';
    return;
  }

  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => route(parseHash()));
  $("diff").addEventListener("click", onDiffClick);
  // A selection stays on one side.
  $("diff").addEventListener("mousedown", (ev) => {
    const c = ev.target.closest("code");
    $("diff").dataset.pick = c && V.mode === "split" ? (c.classList.contains("a") ? "a" : "b") : "";
  });
  $("list").addEventListener("click", (ev) => {
    const it = ev.target.closest(".it");
    if (!it) return;
    if (it.dataset.fold) {
      UNFOLDED.add(ENTRIES[+it.dataset.fold]);
      return drawList();
    }
    moveTo(ENTRIES[+it.dataset.n]);
    drawer(false);
  });
  $("filter").addEventListener("input", drawList);
  $("map").addEventListener("click", (ev) => moveTo(mapEntry(ev)));
  $("map").addEventListener("mousemove", (ev) => {
    const e = mapEntry(ev);
    $("map").title = e ? `${e.s === "source" ? "" : e.i + " "}${e.n}${e.add + e.del ? `  +${e.add} −${e.del}` : ""}` : "";
  });
  let timer = 0;
  const later = () => { clearTimeout(timer); timer = setTimeout(search, 120); };
  $("q").addEventListener("input", () => { Q.text = $("q").value; later(); });
  $("q").addEventListener("focus", () => { if (Q.text && $("results").hidden) search(); });
  for (const [id, k] of [["qre", "re"], ["qcase", "cased"]])
    $(id).addEventListener("click", () => { Q[k] = !Q[k]; $(id).setAttribute("aria-pressed", String(Q[k])); search(); $("q").focus(); });
  $("results").addEventListener("click", (ev) => {
    const r = ev.target.closest(".ri");
    if (r) pickResult(+r.dataset.r);
  });
  document.addEventListener("click", (ev) => {
    if (!ev.target.closest(".search")) { $("results").hidden = true; $("q").setAttribute("aria-expanded", "false"); }
    if (!ev.target.closest("#viewmenu,#viewbtn")) viewMenu(false);
    const n = ev.target.closest("#head .lnk[data-n]");
    if (n) moveTo(ENTRIES[+n.dataset.n]);
    const s = ev.target.closest("#head .lnk[data-src]");
    if (s) go({ pass: "src", side: "b", line: s.dataset.src });
    if (ev.target.closest("#tofail")) moveTo(counts().failed);
  });
  const viewMenu = (open) => { $("viewmenu").hidden = !open; $("viewbtn").setAttribute("aria-expanded", String(open)); };
  $("viewbtn").addEventListener("click", () => viewMenu($("viewmenu").hidden));
  $("viewmenu").addEventListener("keydown", (ev) => { if (ev.key === "Escape") { viewMenu(false); $("viewbtn").focus(); ev.stopPropagation(); } });
  for (const el of document.querySelectorAll("[data-opt]"))
    el.addEventListener("change", () => setOption(el.dataset.opt, el.type === "checkbox" ? el.checked : el.dataset.opt === "context" ? +el.value : el.value));
  for (const b of document.querySelectorAll("[data-view]")) b.addEventListener("click", () => setOption("split", b.dataset.view === "split"));
  $("prev").addEventListener("click", () => moveTo(stepEntry(-1)));
  $("next").addEventListener("click", () => moveTo(stepEntry(1)));
  $("nextc").addEventListener("click", () => nextChange(1) || say("No further change in this pass"));
  $("prevc").addEventListener("click", () => nextChange(-1) || say("No earlier change in this pass"));
  $("all").addEventListener("click", expandAll);
  $("theme").addEventListener("click", toggleTheme);
  $("menu").addEventListener("click", () => drawer(!document.body.classList.contains("drawer")));
  $("shade").addEventListener("click", () => drawer(false));
  for (const [b, d] of [["cmpbtn", "compare"], ["infobtn", "details"], ["helpbtn", "help"]]) $(b).addEventListener("click", () => openDialog(d));
  for (const d of document.querySelectorAll("dialog")) {
    d.querySelector(".close").addEventListener("click", () => d.close());
    d.addEventListener("click", (ev) => { if (ev.target === d) d.close(); });
  }
  $("cmpgo").addEventListener("click", () => {
    $("compare").close();
    go({ left: SPOTS[$("cmpa").value].st, right: SPOTS[$("cmpb").value].st });
  });
  $("cmpswap").addEventListener("click", () => { [$("cmpa").value, $("cmpb").value] = [$("cmpb").value, $("cmpa").value]; });
  $("copya").addEventListener("click", () => copyText(textOf(V.a), "Text before"));
  $("copyb").addEventListener("click", () => copyText(textOf(V.b >= 0 ? V.b : V.a), "Text after"));
  $("copyd").addEventListener("click", () => copyText(V.model ? unifiedText(V.model, sideLabel("a"), sideLabel("b")) : "", "Diff"));
  $("copyl").addEventListener("click", () => copyText(location.href, "Link"));
  $("unfollow").addEventListener("click", leaveFollow);
  $("followname").addEventListener("change", () => { const n = $("followname").value.trim(); if (isName(n)) go(here({ follow: n })); });
  $("follow").addEventListener("change", (ev) => {
    if (ev.target.id !== "loose") return;
    F.loose = ev.target.checked;
    const q = parseHash();
    followName(q.follow || F.name);
    redraw();
  });
  $("follow").addEventListener("click", (ev) => {
    const b = ev.target.closest("button[data-n]");
    if (!b || +b.dataset.n < 0) return;
    const e = ENTRIES[+b.dataset.n], line = +b.dataset.l + 1;
    go(F.name ? { pass: e.key, follow: F.name, side: b.dataset.s, at: line } : { pass: e.key, side: b.dataset.s, line });
  });
  $("outbtn").addEventListener("click", toggleOutline);
  $("outclose").addEventListener("click", toggleOutline);
  $("outbody").addEventListener("click", (ev) => {
    const b = ev.target.closest("button[data-l]");
    if (!b) return;
    // The outline stays: the line is shown, not followed.
    selectLine(b.dataset.s, +b.dataset.l);
  });
  $("hs").addEventListener("scroll", () => document.documentElement.style.setProperty("--sx", -$("hs").scrollLeft + "px"));
  $("diff").addEventListener("wheel", (ev) => {
    const dx = ev.deltaX || (ev.shiftKey ? ev.deltaY : 0);
    if (!dx || OPT.wrap) return;
    $("hs").scrollLeft += dx;
    if (ev.shiftKey) ev.preventDefault();
  }, { passive: false });
  let touch = null;
  $("diff").addEventListener("touchstart", (ev) => { touch = { x: ev.touches[0].clientX, s: $("hs").scrollLeft }; }, { passive: true });
  $("diff").addEventListener("touchmove", (ev) => { if (touch && !OPT.wrap) $("hs").scrollLeft = touch.s + touch.x - ev.touches[0].clientX; }, { passive: true });
  let width = 0;
  new ResizeObserver(() => {
    const w = $("mid").clientWidth;
    if (Math.abs(w - width) > 8 && width) relayout(false);
    width = w;
    drawMap();
  }).observe($("mid"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMap);
  const names = new Map();
  for (const s of LINES.slice(0, 4000)) for (const w of s.match(NAME_RE) || []) if (w.length > 1 && !IR_WORDS.has(w) && !CU_WORDS.has(w)) names.set(w, (names.get(w) || 0) + 1);
  $("names").innerHTML = [...names].sort((x, y) => y[1] - x[1]).slice(0, 300).map(([w]) => `<option value="${esc(w)}">`).join("");

  drawList();
  route(parseHash());
  document.documentElement.dataset.ready = "1";
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
