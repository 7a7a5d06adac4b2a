// Syntax colors for IR and CUDA, one line at a time, and the line's HTML with marks laid over them.

const IR_WORDS = new Set("for in with if elif else while def class return import from as assert and or not True False None lambda is pass break continue global".split(" "));
const CU_WORDS = new Set(("if else for while do switch case default return break continue goto struct class enum union typedef using namespace template typename sizeof static const constexpr volatile inline extern register auto new delete public private this nullptr true false asm operator " +
  "__global__ __device__ __host__ __shared__ __restrict__ __launch_bounds__ __align__ __forceinline__ __noinline__ __constant__ __grid_constant__ __volatile__ alignas").split(" "));
const CU_TYPES = new Set(("void bool char short int long float double unsigned signed half size_t uint uchar ushort int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t half_t bfloat16_t __half __half2 __nv_bfloat16 __nv_bfloat162 " +
  "float2 float4 int2 int4 uint2 uint4 uint1 longlong4 dim3 CUtensorMap").split(" "));

const IR_RE = /(#.*)|("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?)|(\b\d[\w.]*)|(@?\b[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*)/g;
const CU_RE = /(\/\/.*|\/\*.*?(?:\*\/|$))|("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?)|(\b\d[\w.]*)|(^\s*#\s*\w+.*|\b[A-Za-z_]\w*)/g;

function tokensOf(s, cuda) {
  const out = [];
  const re = cuda ? CU_RE : IR_RE;
  re.lastIndex = 0;
  let m;
  while ((m = re.exec(s))) {
    if (!m[0]) { re.lastIndex++; continue; }
    let c = "";
    if (m[1]) c = "c";
    else if (m[2]) c = "s";
    else if (m[3]) c = "n";
    else if (cuda) {
      const w = m[4];
      if (w.trimStart()[0] === "#") c = "d";
      else if (CU_WORDS.has(w)) c = "k";
      else if (CU_TYPES.has(w)) c = "t";
      else if (s[re.lastIndex] === "(") c = "f";
    } else {
      const w = m[4];
      if (w[0] === "@") c = "d";
      else if (IR_WORDS.has(w)) c = "k";
      else if (/^[TI]\./.test(w)) c = /^T\.(?:u?int|b?float|tfloat|bool|handle)\w*$/.test(w) ? "t" : "f";
      else {
        const dot = w.indexOf(".");
        if (dot < 0 && s[re.lastIndex] === "(") c = "f";
      }
    }
    if (c) out.push([m.index, m.index + m[0].length, c]);
  }
  return out;
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (s) => String(s).replace(/[&<>"']/g, (c) => ESCAPES[c]);

// codeEsc escapes text for HTML, makes control characters visible, and lets long lines break after
// the bracket that opens a call or an index.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const shownControl = (c) => (c.charCodeAt(0) < 256 ? "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0") : "\\u" + c.charCodeAt(0).toString(16));
const codeEsc = (s) => esc(s).replace(CONTROL, (c) => `<i class="ctl">${shownControl(c)}</i>`).replace(/(?:^|\w)[([](?![([])/g, "$&<wbr>");
// nameEsc does the same for a name that stays on one line.
const nameEsc = (s) => esc(s).replace(/[\u0000-\u001f]/g, shownControl).replace(CONTROL, shownControl);

const SHOWN_CHARS = 20000; // of one line

// lineHTML renders a line with syntax colors, and over them ranges [from, to, class].
function lineHTML(s, cuda, marks) {
  let tail = "";
  if (s.length > SHOWN_CHARS) {
    tail = `<i class="ctl">… ${(s.length - SHOWN_CHARS).toLocaleString("en")} more characters</i>`;
    s = s.slice(0, SHOWN_CHARS);
  }
  const toks = tokensOf(s, cuda);
  if (!marks || !marks.length) {
    let out = "", at = 0;
    for (const [f, t, c] of toks) {
      if (f > at) out += codeEsc(s.slice(at, f));
      out += `<b class="${c}">${codeEsc(s.slice(f, t))}</b>`;
      at = t;
    }
    return out + codeEsc(s.slice(at)) + tail;
  }
  const cuts = new Set([0, s.length]);
  for (const [f, t] of toks) cuts.add(f), cuts.add(t);
  for (const [f, t] of marks) cuts.add(Math.min(f, s.length)), cuts.add(Math.min(t, s.length));
  const at = [...cuts].sort((a, b) => a - b);
  let out = "", ti = 0;
  for (let i = 0; i + 1 < at.length; i++) {
    const f = at[i], t = at[i + 1];
    while (ti < toks.length && toks[ti][1] <= f) ti++;
    let c = ti < toks.length && toks[ti][0] <= f ? toks[ti][2] : "";
    for (const m of marks) if (m[0] <= f && m[1] >= t) c += " " + m[2];
    const text = codeEsc(s.slice(f, t));
    out += c ? `<b class="${c.trim()}">${text}</b>` : text;
  }
  return out + tail;
}

const NAME_RE = /[A-Za-z_]\w*/g;
const isName = (s) => /^[A-Za-z_]\w*$/.test(s);

// ranges of a whole word in a line
function wordRanges(s, name, loose, cls) {
  const re = new RegExp(`(?<![\\w])${name.replace(/[^\w]/g, "\\$&")}${loose ? "(?:_\\d+)?" : ""}(?!\\w)`, "g");
  const out = [];
  let m;
  while ((m = re.exec(s))) out.push([m.index, m.index + m[0].length, cls]);
  return out;
}
