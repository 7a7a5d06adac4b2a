package render

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lowertrace/internal/trace"
)

// findChromium returns a browser to test with. Without one the test is skipped, but under CI=true
// it fails.
func findChromium(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("LOWERTRACE_CHROMIUM"); p != "" {
		return p
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	const how = "no Chromium: apt-get install chromium, or set LOWERTRACE_CHROMIUM to a browser's path"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}

// browser is started once for all tests of the package.
var browser struct {
	sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	dir    string
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.cancel != nil {
		browser.cancel()
		os.RemoveAll(browser.dir)
	}
	os.Exit(code)
}

func startBrowser(t testing.TB) context.Context {
	t.Helper()
	path := findChromium(t)
	browser.Do(func() {
		if browser.dir, browser.err = os.MkdirTemp("", "render-browser-"); browser.err != nil {
			return
		}
		opts := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(browser.dir),
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
			chromedp.Flag("disable-background-networking", true), chromedp.WSURLReadTimeout(60*time.Second))
		alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		var cancel context.CancelFunc
		browser.ctx, cancel = chromedp.NewContext(alloc)
		browser.cancel = func() { cancel(); cancelAlloc() }
		browser.err = chromedp.Do(browser.ctx)
	})
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	return browser.ctx
}

// page is one report in a tab of its own. Console errors, exceptions and requests for anything but
// the report itself fail the test.
type page struct {
	t    testing.TB
	ctx  context.Context
	file string

	mu       sync.Mutex
	problems []string
}

func openPage(t testing.TB, file []byte, w, h int64) *page {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	tab, cancel := chromedp.NewContext(startBrowser(t))
	ctx, cancelTime := context.WithTimeout(tab, 90*time.Second)
	p := &page{t: t, ctx: ctx, file: "file://" + (&url.URL{Path: path}).EscapedPath()}
	t.Cleanup(func() {
		cancelTime()
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.problems {
			t.Error(s)
		}
	})
	note := func(s string) {
		p.mu.Lock()
		p.problems = append(p.problems, s)
		p.mu.Unlock()
	}
	err := chromedp.Listen(tab, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			note("exception: " + fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				note(fmt.Sprintf("console: %v", e.Args))
			}
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
				note("log: " + e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			u := e.Request.URL
			if !strings.HasPrefix(u, p.file) && !strings.HasPrefix(u, "data:") {
				note("request: " + u)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do(call(network.Enable, network.EnableParams{}), call(cdplog.Enable, cdp.Empty{}), chromedp.EmulateViewport(w, h))
	p.open("")
	return p
}

// open loads the report at an address.
func (p *page) open(hash string) {
	p.t.Helper()
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.file+hash),
		chromedp.WaitReady(chromedp.CSS(`html[data-ready="1"]`)))
}

// call makes an action of a protocol command without a result.
func call[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// str evaluates an expression to a string.
func (p *page) str(js string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`String(`+js+`)`))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return s
}

// want waits until an expression has a value.
func (p *page) want(js, value string) {
	p.t.Helper()
	var got string
	for i := 0; i < 200; i++ { // ten seconds: the machine may be busy
		if got = p.str(js); got == value {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Fatalf("%s is %q, want %q", js, got, value)
}

func (p *page) wantText(sel, part string) {
	p.t.Helper()
	p.want(fmt.Sprintf(`(document.querySelector(%q)||{innerText:""}).innerText.includes(%q)`, sel, part), "true")
}

func (p *page) click(sel string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(sel))); err != nil {
		p.t.Fatalf("click on %s: %v", sel, err)
	}
}

// fill types into a field from scratch.
func (p *page) fill(sel, text string) {
	p.t.Helper()
	p.str(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); return "" })()`, sel, text))
}

func (p *page) key(k string, mods ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(k, mods...))
}

func (p *page) dark(on bool) {
	v := "light"
	if on {
		v = "dark"
	}
	p.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v}}}))
}

// count says how many elements match.
func (p *page) count(sel string) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length", sel)
}

func TestBrowserGEMM(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "gemm_f16/sm_80")), 1600, 1000)

	// It opens on the first pass that changed something.
	p.wantText("#head", "BindTarget")
	p.wantText("#sub", "of 74 changed")
	p.want(`document.querySelector('#list [aria-selected="true"] .nm').textContent`, "BindTarget")

	// Keys: next changed pass, next pass of any kind, back.
	p.key("j")
	p.wantText("#head", "MaterializeKernelLaunch")
	p.want("location.hash", "#pass=4")
	p.key("J")
	p.wantText("#head", "AnnotateDeviceBoundTmaCopies")
	p.wantText("#note", "No differences.")
	p.key("k")
	p.wantText("#head", "MaterializeKernelLaunch")
	p.do(chromedp.NavigateBack())
	p.wantText("#head", "AnnotateDeviceBoundTmaCopies")

	// The list: a click, a fold, the filter.
	p.click(`#list .it[data-n="21"]`)
	p.wantText("#head", "LayoutInference")
	folds := p.str(p.count("#list .fold"))
	p.click("#list .fold")
	if after := p.str(p.count("#list .fold")); after == folds {
		t.Errorf("a fold did not open: %s before and after", folds)
	}
	p.key("f")
	p.want("document.activeElement.id", "filter")
	p.fill("#filter", "thrsy")
	p.want(p.count("#list .it"), "2")
	p.key(kb.Enter)
	p.wantText("#head", "ThreadSync#1")
	p.fill("#filter", "")

	// Side by side and unified, wrap, context, options.
	p.want(`document.getElementById("diff").classList.contains("split")`, "true")
	p.click(`[data-view="unified"]`)
	p.want(`document.getElementById("diff").classList.contains("unified")`, "true")
	p.click(`[data-view="split"]`)
	p.do(chromedp.Focus(chromedp.CSS("#diff")))
	p.key("w")
	p.want(`document.getElementById("diff").classList.contains("nowrap")`, "true")
	p.want(`document.getElementById("hs").hidden`, "false")
	p.key("w")
	gaps := p.count("#diff .gap")
	p.want(gaps+" > 0", "true")
	p.key("E", chromedp.KeyModifiers(chromedp.ModifierShift))
	p.want(gaps, "0")
	p.key("E", chromedp.KeyModifiers(chromedp.ModifierShift))
	p.want(gaps+" > 0", "true")
	rows := p.str("document.getElementById('diff').getAttribute('aria-rowcount')")
	p.click("#diff .gx")
	if now := p.str("document.getElementById('diff').getAttribute('aria-rowcount')"); now == rows {
		t.Errorf("expanding context left %s rows", rows)
	}

	// Next and previous change.
	p.open("#pass=22")
	p.key("n")
	p.want(p.count("#diff .r.cur"), "1")
	first := p.str(`document.querySelector("#diff .r.cur").dataset.i`)
	p.key("n")
	p.want(fmt.Sprintf(`document.querySelector("#diff .r.cur").dataset.i != %q`, first), "true")
	p.key("p")
	p.want(`document.querySelector("#diff .r.cur").dataset.i`, first)

	// Search over all passes.
	p.key("/")
	p.want("document.activeElement.id", "q")
	p.fill("#q", "ptx_mma")
	p.want(p.count("#results .ri")+" > 0", "true")
	p.wantText("#results .rg", "LowerTileOp")
	p.key(kb.ArrowDown)
	p.key(kb.Enter)
	p.wantText("#head", "LowerTileOp")
	p.want(p.count("#diff .r.sel"), "1")
	p.wantText("#diff .r.sel", "ptx_mma")
	p.want(p.count("#diff .sel .hit")+" > 0", "true")
	p.click("#qre")
	p.fill("#q", "a_s\\[(")
	p.wantText("#results", "Not a valid regular expression")
	p.key(kb.Escape)

	// Compare any two states.
	p.open("")
	p.key("c")
	p.do(chromedp.SetValue(chromedp.CSS("#cmpa"), "1"))
	p.do(chromedp.SetValue(chromedp.CSS("#cmpb"), "3"))
	p.click("#cmpgo")
	p.wantText("#head h2", "input to after 4")
	p.want(`location.hash.startsWith("#left=")`, "true")

	// Details, help, theme.
	p.key("i")
	p.wantText("#detailbody", "sm_80")
	p.wantText("#detailbody", "left by")
	p.click("#details .close")
	p.key("?")
	p.wantText("#keys", "align by hand")
	p.key(kb.Escape)
	p.want(`document.getElementById("help").open`, "false")
	was := p.str(`getComputedStyle(document.body).backgroundColor`)
	p.click("#theme")
	p.want(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor != %q`, was), "true")
	p.want(`localStorage.getItem("lowertrace.theme")`, "dark")
	p.click("#theme")

	// The view menu: host code, palette, context.
	p.click("#viewbtn")
	p.click(`#viewmenu [data-opt="host"]`)
	p.want(`localStorage.getItem("lowertrace.host")`, "true")
	p.click(`#viewmenu [data-opt="host"]`)
	p.str(`(() => { const s = document.querySelector('[data-opt="palette"]'); s.value = "blue-orange"; s.dispatchEvent(new Event("change", {bubbles: true})); return "" })()`)
	p.want(`document.documentElement.dataset.palette`, "blue-orange")
	p.str(`(() => { const s = document.querySelector('[data-opt="palette"]'); s.value = "green-red"; s.dispatchEvent(new Event("change", {bubbles: true})); return "" })()`)
	p.click("#copyl")
	p.wantText("#toast", "Link copied")
	p.click("#copyd")
	p.wantText("#toast", "Diff copied")
	p.click("h1")
	p.want(`document.getElementById("viewmenu").hidden`, "true")

	// All by keyboard: the list, the comparison, following the line under the cursor.
	p.open("#pass=4")
	p.do(chromedp.Focus(chromedp.CSS("#list")))
	p.key(kb.ArrowDown)
	p.wantText("#head", "PipelinePlanning")
	p.key(kb.ArrowUp)
	p.wantText("#head", "MaterializeKernelLaunch")
	p.do(chromedp.Focus(chromedp.CSS("#diff")))
	p.key(kb.ArrowDown)
	p.key(kb.ArrowDown)
	p.want(p.count("#diff .r.cur"), "1")
	p.key(kb.Enter)
	p.want(`location.hash.includes("line=")`, "true")
	p.want(`document.getElementById("follow").hidden`, "false")
	p.key(kb.Escape)
	p.want(`document.getElementById("follow").hidden`, "true")
	p.key("v")
	p.want(`document.activeElement.id`, "followname")
	p.key("?") // goes into the field
	p.want(`document.getElementById("help").open`, "false")
	p.key(kb.Escape)
	p.key(kb.Escape)
	p.want(`document.getElementById("follow").hidden`, "true")
	p.key("G")
	p.wantText("#head", "codegen")
	p.key("g")
	p.wantText("#head", "Source")

	// The outline names what the state consists of, and leads there.
	p.open("#pass=22")
	p.key("o")
	p.wantText("#outbody .buf", "A: float16[256, 256]")
	p.want(p.count("#outbody .loop")+" > 3", "true")
	p.want(p.count("#outbody .new")+" > 0", "true")
	p.click("#outbody .loop button")
	p.wantText("#diff .r.sel", "for ")
	p.key("G")
	p.wantText("#outhead", "CUDA")
	p.wantText("#outbody .fn", "gemm_f16_kernel")
	p.key(kb.Escape)
	p.want(`document.getElementById("outline").hidden`, "true")

	// The minimap goes where it is clicked.
	p.str(`(() => { const c = document.getElementById("map"), r = c.getBoundingClientRect();
		c.dispatchEvent(new MouseEvent("click", {clientX: r.right - 2, clientY: r.top + 5, bubbles: true})) })()`)
	p.wantText("#head", "codegen")
	p.wantText("#labels", "CUDA")
	p.want(p.count("#diff.parallel"), "1")
}

func TestBrowserHostCode(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "gemm_f16/sm_80")), 1600, 1000)
	p.open("#pass=76")
	p.wantText("#diff .host", "Host code")
	p.want(`document.getElementById("diff").innerText.includes("num_args")`, "false")
	p.click("#diff .gh")
	p.want(p.count("#diff .host"), "0")
	p.key("E", chromedp.KeyModifiers(chromedp.ModifierShift))
	p.wantText("#diff", "num_args")
	p.open("#pass=76")
	p.key("h")
	p.want(p.count("#diff .host"), "0")
	p.key("h")
}

func TestBrowserFollow(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "flash_attention/sm_90a")), 1600, 1000)

	// A click on a name follows it.
	p.str(`(() => { for (const t of document.querySelectorAll("#diff .tx")) {
		const i = t.textContent.indexOf("match_buffer"); if (i < 0) continue;
		const w = document.createTreeWalker(t, NodeFilter.SHOW_TEXT); const n = w.nextNode(); const at = n.textContent.search(/\w/);
		const r = document.createRange(); r.setStart(n, at); r.setEnd(n, at + 1);
		const b = r.getBoundingClientRect();
		t.dispatchEvent(new MouseEvent("click", {clientX: b.left + 2, clientY: b.top + b.height / 2, bubbles: true})); return; } })()`)
	p.want(`document.getElementById("follow").hidden`, "false")
	p.want(`location.hash.includes("follow=")`, "true")
	p.want(p.count("#followbody .steps li")+" > 3", "true")
	p.wantText("#followbody", "Input")
	p.wantText("#followbody .host", "Filter#2") // a parameter of the host function alone
	p.want(p.count("#diff b.fl")+" > 0", "true")

	// A step of it is a place to go to, and the name stays followed.
	p.click("#followbody .steps li.changes button")
	p.want(p.count("#followbody .here"), "1")
	p.want(`location.hash.includes("follow=")`, "true")
	p.key("j")
	p.want(`location.hash.includes("follow=")`, "true")
	p.key(kb.Escape)
	p.want(`document.getElementById("follow").hidden`, "true")

	// A name by keyboard.
	p.key("v")
	p.fill("#followname", "threadIdx")
	p.key(kb.Enter)
	p.wantText("#followbody .ftitle", "threadIdx")

	// A line: its number follows it, approximately in a trace without origins; the address keeps it.
	p.open("#pass=4")
	p.click(`#diff .ln[data-s="b"]`)
	p.want(`location.hash.includes("line=")`, "true")
	p.wantText("#followbody", "approximate")
	hash := p.str("location.hash")
	p.open(hash)
	p.want(p.count("#diff .r.sel"), "1")
	p.wantText("#followbody", "approximate")
}

// The panel goes through the same steps as `show --var` and `show --line`.
func TestBrowserFollowsAsShow(t *testing.T) {
	for _, run := range []*trace.Run{openCorpus(t, "gemm_f16/sm_80"), openCorpus(t, "flash_attention/sm_90a"), setAsideRun(true), setAsideRun(false)} {
		p := openPage(t, report(t, run), 1600, 1000)
		// steps are in the words of FollowStep; passes of no step are counted in the next one.
		steps := func() string {
			return p.str(`(() => { let q = 0; const out = [];
				for (const li of document.querySelectorAll("#followbody > .steps:last-of-type > li")) {
					if (li.className === "q") { q = parseInt(li.textContent); continue; }
					const b = li.querySelector("button"), gone = li.classList.contains("gone") || li.classList.contains("host");
					out.push([li.querySelector(".fn").textContent.split(" ")[0], li.querySelector(".fw").firstChild.textContent.split(/ [+−]/)[0],
						gone ? 0 : +b.dataset.l + 1, q, !!li.querySelector(".approx")].join(" "));
					q = 0;
				}
				return [...out, q].join("\n"); })()`)
		}
		want := func(f *Followed, err error) string {
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, s := range f.Steps {
				name, first := fmt.Sprint(s.Index), 0
				switch {
				case s.What == FollowInput:
					name = "Input"
				case s.Pass == "codegen":
					name = "CUDA"
				}
				if len(s.Lines) > 0 {
					first = s.Lines[0]
				}
				out = append(out, fmt.Sprint(name, " ", s.What, " ", first, " ", s.Quiet, " ", s.Approximate))
			}
			return strings.Join(append(out, fmt.Sprint(f.Quiet)), "\n")
		}
		for _, name := range []string{"A", "a_s", "C", "bx", "i", "threadIdx", "host"} {
			for _, loose := range []bool{true, false} {
				f, err := FollowName(run, name, loose)
				want := want(f, err)
				if len(f.Steps) == 0 {
					continue
				}
				p.open("#pass=0&follow=" + name)
				p.wantText("#followbody .ftitle", name)
				if p.str(`document.getElementById("loose").checked`) != fmt.Sprint(loose) {
					p.click("#loose")
				}
				if got := steps(); got != want {
					t.Errorf("%s: %s, loose %v: the panel shows\n%s\nshow prints\n%s", run.InputName, name, loose, got, want)
				}
			}
		}
		for line := 1; line <= 3; line++ {
			want := want(FollowLine(run, line))
			key := "src"
			if len(run.Records[0].BeforeOrigins) == 0 {
				key = "0&side=a"
			}
			p.open(fmt.Sprintf("#pass=%s&line=%d", key, line))
			p.wantText("#followbody .ftitle", fmt.Sprint(line))
			if got := steps(); got != want {
				t.Errorf("%s: line %d: the panel shows\n%s\nshow prints\n%s", run.InputName, line, got, want)
			}
		}
	}
}

// With origins, source line, passes and CUDA are one click apart and nothing is approximate.
func TestBrowserOrigins(t *testing.T) {
	src := "def k(A, B):\n    for i in range(4):\n        B[i] = A[i]\n"
	ir0 := "class Module:\n    def k(A, B):\n        for i in range(4):\n            B[i] = A[i]\n"
	ir1 := "class Module:\n    def k(A, B):\n        for v in range(1):\n            B[0:4] = A[0:4]\n"
	cu := "__global__ void k(float* A, float* B) {\n  *(float4*)B = *(float4*)A;\n}\n"
	run := &trace.Run{Records: []trace.LowerRecord{
		{Index: 0, Name: "Bind", Stage: "legalize", Phase: "pipeline_cuda", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true,
			BeforeText: ir0, AfterText: ir0, BeforeOrigins: []int32{0, 1, 2, 3}, AfterOrigins: []int32{0, 1, 2, 3}},
		{Index: 1, Name: "VectorizeLoop", Stage: "loop", Doc: "Turn loops into vectors.", Phase: "pipeline_cuda", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true, AddLines: 2, DelLines: 2,
			BeforeText: ir0, AfterText: ir1, BeforeOrigins: []int32{0, 1, 2, 3}, AfterOrigins: []int32{0, 1, 2, 3},
			Remarks: []trace.Remark{{Text: "vectorized by 4", File: "k.py", Line: 3}}},
		{Index: 2, Name: "codegen", Phase: "codegen", Status: trace.Codegen, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true, AddLines: 3, DelLines: 4,
			BeforeText: ir1, AfterText: cu, BeforeOrigins: []int32{0, 1, 2, 3}, AfterOrigins: []int32{1, 3, 0}},
	}}
	run.Function, run.InputName, run.Source, run.Target = "k", "k.py", src, "sm_80"
	run.Command = []string{"lowertrace", "run", "k.py", "--set", "N=it's"}
	run.Tool, run.ToolVersion, run.InputHash = "lowertrace", "1.2.3", "abc123"
	run.Generated = []trace.GeneratedFile{{Kind: "codegen", Path: "codegen.cpp"}}
	p := openPage(t, report(t, run), 1600, 1000)
	p.wantText("#head", "VectorizeLoop")
	p.wantText("#head .doc", "Turn loops into vectors.")
	p.wantText("#head .remark", "vectorized by 4")
	p.click("#head .lnk[data-src]")
	p.wantText("#head", "Source")
	p.wantText("#diff .r.sel", "B[i] = A[i]")
	p.wantText("#followbody .ftitle", "k.py:3")
	p.want(`document.getElementById("followbody").innerText.includes("approximate")`, "false")
	p.click("#followbody .steps li.cuda button")
	p.wantText("#head", "codegen")
	p.wantText("#diff .r.sel", "float4")
	p.click(`#followbody .steps li button`) // the source again
	p.wantText("#head", "Source")
	p.key("i")
	for _, part := range []string{`--set 'N=it'\''s'`, "1.2.3", "sm_80", "sha256:abc123", "codegen.cpp"} {
		p.wantText("#detailbody", part)
	}
}

func TestBrowserEvilText(t *testing.T) {
	evil := `<img onerror=alert(1) src=x>`
	run := &trace.Run{Records: []trace.LowerRecord{
		{Index: 0, Name: evil, Phase: "</SCRIPT >", Stage: `"><b>`, Doc: evil, Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true, AddLines: 2, DelLines: 1,
			BeforeText: "a\n</SCRIPT ><img onerror=alert(2) src=x>\n", AfterText: "a\n<!-- <script>alert(3)</script>\n\x1b[2J\u202e\x00\n", Remarks: []trace.Remark{{Text: evil, File: evil, Line: 2}}},
		{Index: 1, Name: "Second", Phase: "p", Status: trace.Failed, ErrorMsg: evil + "\n  ^", ParentIndex: -1, HasBefore: true, BeforeText: "a\n"},
	}}
	run.Function, run.State, run.Target = evil, trace.StateFailed, evil
	p := openPage(t, report(t, run), 1600, 1000)
	p.want(`document.querySelectorAll("img, body b b, script:not(.lt)").length`, "1") // the viewer's own program
	p.wantText("h1", evil)
	p.wantText("#head", evil)
	p.wantText("#list", evil)
	p.wantText("#diff", "</SCRIPT ><img onerror=alert(2) src=x>")
	p.wantText("#diff", `\x1b[2J\u202e\x00`)
	p.wantText("#banner", "Second failed")
	p.click("#tofail")
	p.wantText("#head", "FAILED")
	p.wantText("#head .err", evil)
	p.wantText("#note", "the text before it")
	p.wantText("#list .it.failed", "FAILED")
}

func TestBrowserCutOff(t *testing.T) {
	file := report(t, openCorpus(t, "softmax/sm_80"))
	p := openPage(t, file[:len(file)-len(file)/10], 1600, 1000)
	p.wantText("#banner", "This report ends early")
	p.wantText("#head", "BindTarget")
	p.key("j")
	p.wantText("#head", "MaterializeKernelLaunch")
}

func TestBrowserNoDifference(t *testing.T) {
	run := &trace.Run{Records: []trace.LowerRecord{
		{Index: 0, Name: "End", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true, AddLines: 1, DelLines: 1, BeforeText: "x\n", AfterText: "x"},
		{Index: 1, Name: "Space", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true, AddLines: 1, DelLines: 1, BeforeText: "f(a,b)\ny_1\n", AfterText: "f(a, b)\ny_2\n"},
		{Index: 2, Name: "Idle", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, BeforeText: "f(a, b)\n", AfterText: "f(a, b)\n"},
	}}
	p := openPage(t, report(t, run), 1600, 1000)
	p.wantText("#note", "differ only in the final newline")
	p.key("j")
	p.want(p.count("#diff .r.ws"), "1")
	p.key("s")
	p.want(p.count("#diff .r.ws"), "0")
	p.want(p.count("#diff .r.chg"), "1")
	p.key("r")
	p.wantText("#note", "No differences but in what is ignored.")
	p.key("s")
	p.key("r")
	p.key("J")
	p.wantText("#note", "No differences.")
	p.want(p.count("#diff .gap"), "0")
}

// F7 sets two lines side by side that the comparison kept apart.
func TestBrowserAlign(t *testing.T) {
	run := &trace.Run{Records: []trace.LowerRecord{
		{Index: 0, Name: "P", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true,
			BeforeText: "alpha beta\nsame\n", AfterText: "same\none two three\n"},
	}}
	p := openPage(t, report(t, run), 1600, 1000)
	beside := `(() => { const l = document.querySelector('#diff .ln[data-s="a"][data-l="0"]'); const m = l.parentElement.querySelector('.ln[data-s="b"]'); return m ? m.dataset.l : "none" })()`
	p.want(beside, "none")
	p.key(kb.F7)
	p.wantText("#alignbar", "left")
	p.click(`#diff .ln[data-s="a"][data-l="0"]`)
	p.wantText("#alignbar", "right")
	p.click(`#diff .ln[data-s="b"][data-l="1"]`)
	p.want(beside, "1")
	p.want(`document.getElementById("alignbar").hidden`, "true")
}

func TestBrowserCompareTwoRuns(t *testing.T) {
	al := trace.Align(openCorpus(t, "gemm_f16/sm_80"), openCorpus(t, "gemm_f16/sm_90a"))
	var b strings.Builder
	if err := WriteCompareReport(&b, al); err != nil {
		t.Fatal(err)
	}
	p := openPage(t, []byte(b.String()), 1600, 1000)
	p.wantText("#head h2", al.Pairs[al.First].Name())
	p.wantText("#sub", "passes differ")
	p.wantText("#labels", "A · ")
	p.key("j")
	p.key("i")
	p.wantText("#detailbody", "sm_90a")
}

func TestBrowserNarrow(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "gemm_f16/sm_80")), 390, 844)
	p.want(`document.getElementById("diff").classList.contains("unified")`, "true")
	p.want("document.documentElement.scrollWidth <= 390", "true")
	p.want(`getComputedStyle(document.getElementById("side")).visibility`, "hidden")
	p.click("#menu")
	p.want(`document.getElementById("side").getBoundingClientRect().left`, "0")
	p.click(`#list .it[data-n="21"]`)
	p.wantText("#head", "LayoutInference")
	p.want(`getComputedStyle(document.getElementById("side")).visibility`, "hidden")
	// Every control can be hit: nothing sticks out of the window.
	p.want(`[...document.querySelectorAll("button,input")].filter(e => e.offsetParent && !e.closest("#side,dialog")).every(e => { const r = e.getBoundingClientRect(); return r.left >= -1 && r.right <= 391 })`, "true")
}

// Every control has a name, and the roles are those of a list and a table.
func TestBrowserNames(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "softmax/sm_80")), 1600, 1000)
	p.want(`[...document.querySelectorAll("button,input,select")].filter(e => e.id !== "cmpa" && e.id !== "cmpb" || true).filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label"))).map(e => e.outerHTML).join()`, "")
	p.want(`document.querySelector("#list").getAttribute("role")`, "listbox")
	p.want(`document.querySelector("#diff").getAttribute("role")`, "table")
	p.want(p.count(`#diff [role="row"] [role="rowheader"]`)+" > 0", "true")
	p.want(`document.querySelector("#diff .add, #diff .chg").hasAttribute("aria-label")`, "true")
	ids := p.str(`(() => { const n = {}; for (const e of document.querySelectorAll("[id]")) n[e.id] = (n[e.id] || 0) + 1; return Object.keys(n).filter(k => n[k] > 1).join() })()`)
	if ids != "" {
		t.Errorf("ids used twice: %s", ids)
	}
}

// contrastJS gives the lowest contrast of text against what lies behind it, and the element's class.
const contrastJS = `(() => {
	const lum = c => { const v = c.map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4 }); return .2126*v[0] + .7152*v[1] + .0722*v[2] };
	const rgb = s => { const m = s.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3) };
	let worst = [99, ""];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.offsetParent || e.closest("svg,canvas") || e.disabled || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
		let b = null; for (let p = e; p && !b; p = p.parentElement) b = rgb(getComputedStyle(p).backgroundColor);
		const f = rgb(getComputedStyle(e).color); b = b || [255, 255, 255];
		const [x, y] = [lum(f), lum(b)].sort((p, q) => q - p), c = (x + .05) / (y + .05);
		if (c < worst[0]) worst = [c, e.tagName + "." + e.className + " in " + (e.parentElement || {}).className + " " + f + " on " + b];
	}
	return worst[0] >= 4.5 ? "ok" : worst.join(" ");
})()`

func TestBrowserContrast(t *testing.T) {
	p := openPage(t, report(t, openCorpus(t, "gemm_f16/sm_80")), 1600, 1000)
	for _, dark := range []bool{false, true} {
		p.dark(dark)
		for _, palette := range []string{"green-red", "blue-orange"} {
			for _, hash := range []string{"#pass=22&follow=a_s", "#pass=4&side=b&line=12", "#pass=84", "#pass=76"} {
				p.open(hash)
				p.str(fmt.Sprintf(`document.documentElement.dataset.palette = %q`, palette))
				if got := p.str(contrastJS); got != "ok" {
					t.Errorf("dark %v, %s, %s: contrast %s", dark, palette, hash, got)
				}
			}
		}
	}
	p.dark(false)
}

// benchmarkOpens measures from navigation until the page is ready for its reader.
func benchmarkOpens(b *testing.B, file []byte) {
	p := openPage(b, file, 1600, 1000)
	total := 0.0
	for b.Loop() {
		p.open("")
		var ms float64
		fmt.Sscan(p.str(`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`), &ms)
		total += ms
	}
	b.ReportMetric(total/float64(b.N), "ms-to-ready")
}

func BenchmarkReportOpensGEMM(b *testing.B) {
	benchmarkOpens(b, report(b, openCorpus(b, "gemm_f16/sm_80")))
}

func BenchmarkReportOpens200x2000(b *testing.B) {
	benchmarkOpens(b, report(b, bigRun(200, 2000, 100)))
}

func BenchmarkReportOpens1000x20000(b *testing.B) {
	benchmarkOpens(b, report(b, bigRun(1000, 20000, 40)))
}

func TestBrowserLarge(t *testing.T) {
	p := openPage(t, report(t, bigRun(1000, 20000, 40)), 1600, 1000)
	p.key("j")
	p.wantText("#head", "1 Pass1")
	p.key("G")
	p.wantText("#head", "999 ")
	p.key("E", chromedp.KeyModifiers(chromedp.ModifierShift))
	p.want(`document.getElementById("diff").getAttribute("aria-rowcount") >= 20000`, "true")
	p.want(p.count("#diff .r")+" < 1500", "true") // only what is near the view has rows
	p.str(`document.getElementById("diff").scrollTop = 1e9`)
	p.want(p.count(`#diff .ln[data-l="19999"]`)+" > 0", "true")
	p.key("/")
	p.fill("#q", "buf_7[i_12")
	p.want(p.count("#results .ri")+" > 0", "true")
}

// Screenshots for the documentation, written where RENDER_SCREENSHOTS says.
func TestBrowserScreenshots(t *testing.T) {
	dir := os.Getenv("RENDER_SCREENSHOTS")
	if dir == "" {
		t.Skip("RENDER_SCREENSHOTS names no folder")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	file := report(t, openCorpus(t, "gemm_f16/sm_80"))
	for _, size := range []struct{ w, h int64 }{{1600, 1000}, {390, 844}} {
		p := openPage(t, file, size.w, size.h)
		for _, theme := range []string{"light", "dark"} {
			p.dark(theme == "dark")
			for name, hash := range map[string]string{"pass": "#pass=20", "follow": "#pass=22&follow=a_s", "codegen": "#pass=84&side=b&line=52"} {
				p.open(hash)
				p.do(chromedp.Sleep(150 * time.Millisecond))
				shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				if err != nil {
					t.Fatal(err)
				}
				out := filepath.Join(dir, fmt.Sprintf("report-%s-%s-%d.png", name, theme, size.w))
				if err := os.WriteFile(out, shrink(t, shot), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// shotColors is the palette of a screenshot: flat areas and the edges of letters.
const shotColors = 64

// shrink stores a screenshot with its commonest colors alone, at a quarter of the size.
func shrink(t *testing.T, file []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	count := map[color.RGBA]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	colors := make([]color.RGBA, 0, len(count))
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var pal color.Palette
	for _, c := range colors[:min(len(colors), shotColors)] {
		pal = append(pal, c)
	}
	small := image.NewPaletted(b, pal)
	index := map[color.RGBA]uint8{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
			i, ok := index[c]
			if !ok {
				i = uint8(pal.Index(c))
				index[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
