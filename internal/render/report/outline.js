// The outline: functions, buffers, loops and operators of the state on screen, as a tree.

const OUTLINE = { open: false };

const IR_PARTS = [
  ["fn", /^def (\w+)\(/, (m) => m[1]],
  ["buf", /^(\w+) = T\.(?:sblock_alloc_buffer|alloc_buffer|alloc_\w+|match_buffer)\((.*)\)$/, (m) => {
    const scope = /scope="([^"]+)"/.exec(m[2]), shape = /\(([^()]*)\)/.exec(m[2]), type = /"(\w*(?:int|float|bool|handle)\w*)"/.exec(m[2]);
    return `${m[1]}: ${type ? type[1] : "float32"}[${shape ? shape[1].replace(/,\s*$/, "") : ""}]${scope ? " " + scope[1] : ""}`;
  }],
  ["thr", /^(?:(\w+) = )?T\.launch_thread\((.*)\)$/, (m) => `${m[1] || ""} ${m[2]}`.trim()],
  ["loop", /^for (.+?) in (?:T\.)?(.+):$/, (m) => `${m[1]} in ${m[2]}`],
  ["if", /^(if|elif|while) (.+):$/, (m) => `${m[1]} ${m[2]}`],
  ["if", /^else:$/, () => "else"],
  ["blk", /^with T\.(?:s?block)\("?(.*?)"?\):$/, (m) => `block ${m[1]}`],
  ["blk", /^with (.+):$/, (m) => m[1]],
  ["op", /^T\.(copy|gemm|fill|reduce\w*|cumsum|im2col|atomic\w*|tma\w*|ptx_\w+|cp_async\w*|mbarrier\w*|tvm_storage_sync|sync\w*|wgmma\w*|call_extern|tvm_mma\w*|tvm_ldmatrix\w*|print)\((.*)\)$/, (m) => `${m[1]}(${m[2]})`],
];
const CU_PARTS = [
  ["fn", /^(?:extern "C" )?(?:__global__|__device__|static __device__).*?\b(?!__launch_bounds__|__align__|alignas)(\w+)\(.*\{$/, (m) => m[1]],
  ["buf", /^(?:extern )?__shared__ (.+);$/, (m) => m[1]],
  ["loop", /^for \((.+)\) \{$/, (m) => m[1]],
  ["if", /^(?:\} )?(else if|if|while) \((.+)\) \{$/, (m) => `${m[1]} ${m[2]}`],
  ["if", /^\} else \{$/, () => "else"],
  ["op", /^(__syncthreads|asm volatile|(?:tl::)?\w*(?:cp_async|mma|ldmatrix|mbarrier|tma|wgmma|atomic)\w*)(.*)$/i, (m) => m[1] + m[2].replace(/;$/, "")],
];

function outlineOf(k) {
  const out = [], a = ids(k), cuda = CUDA_STATES.has(k), parts = cuda ? CU_PARTS : IR_PARTS;
  const host = OPT.host ? [] : functionsOf(k).filter((f) => f.host);
  const stack = []; // indentation of the enclosing items
  for (let i = 0; i < a.length; i++) {
    const h = host.find((f) => f.from === i);
    if (h) {
      out.push({ kind: "fn", depth: 0, text: `${h.name} (host code)`, line: i, last: i, n: 1 });
      i = h.to - 1;
      continue;
    }
    const s = LINES[a[i]], t = s.trim();
    for (const [kind, re, label] of parts) {
      const m = re.exec(t);
      if (!m) continue;
      const ind = s.length - s.trimStart().length;
      while (stack.length && stack[stack.length - 1] >= ind) stack.pop();
      const text = label(m).slice(0, 200), l = out[out.length - 1];
      const head = text.split("(")[0];
      if (kind === "op" && l && l.kind === "op" && l.depth === stack.length && l.text.split("(")[0] === head) {
        l.n++;
        l.last = i;
      } else out.push({ kind, depth: stack.length, text, line: i, last: i, n: 1 });
      if (kind !== "op" && kind !== "buf" && kind !== "thr") stack.push(ind);
      break;
    }
  }
  return out;
}

function drawOutline() {
  const el = $("outline");
  el.hidden = !OUTLINE.open;
  $("outbtn").setAttribute("aria-pressed", String(OUTLINE.open));
  if (!OUTLINE.open) return;
  const side = V.b >= 0 ? "b" : "a", k = stateOf(side);
  const changed = new Set();
  if (V.model && !V.codegen) for (const bl of V.model.blocks) if (!bl.eq) for (const r of changeRows(V.model, bl)) if (r[side] >= 0 && r.t !== "ws") changed.add(r[side]);
  const items = k >= 0 ? outlineOf(k) : [];
  $("outhead").textContent = `Outline · ${V.entry ? sideLabel(side) : spotLabel(k)}`;
  $("outbody").innerHTML = items.length
    ? `<ol>${items.slice(0, MAX_OUTLINE).map((x) => {
        let mark = false;
        for (let i = x.line; i <= x.last && !mark; i++) mark = changed.has(i);
        return `<li style="--d:${Math.min(x.depth, 12)}" class="${x.kind}${mark ? " new" : ""}"><button data-l="${x.line}" data-s="${side}" title="line ${x.line + 1}${mark ? ", changed here" : ""}"><i>${KIND_TEXT[x.kind]}</i> ${nameEsc(x.text)}${x.n > 1 ? `<b>×${x.n}</b>` : ""}</button></li>`;
      }).join("")}</ol>${items.length > MAX_OUTLINE ? `<p class="empty">and ${(items.length - MAX_OUTLINE).toLocaleString("en")} more</p>` : ""}`
    : `<p class="empty">Nothing here has a structure.</p>`;
}

const MAX_OUTLINE = 1500;
const KIND_TEXT = { fn: "function", buf: "buffer", thr: "thread", loop: "for", if: "", blk: "", op: "" };

function toggleOutline() {
  OUTLINE.open = !OUTLINE.open;
  if (OUTLINE.open && !$("follow").hidden) leaveFollow();
  document.body.classList.toggle("following", OUTLINE.open || !$("follow").hidden);
  drawOutline();
}
