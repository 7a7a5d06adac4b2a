package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Severity of a compiler message.
type Severity string

// The severities that NVRTC's log distinguishes.
const (
	SevError   Severity = "error"
	SevWarning Severity = "warning"
	SevNote    Severity = "note"
)

// Message is one message of a compiler log.
type Message struct {
	File     string // "" when the message has no position
	Line     int    // 1-based; 0: none
	Col      int    // 1-based, in bytes of the source line; 0: none
	Severity Severity
	Code     string // "177-D"; "" if none
	Text     string
	Source   string // the source line that the log quotes; "" if none
}

// String formats the message as file:line:col: severity: text.
func (m Message) String() string {
	var b strings.Builder
	if m.File != "" {
		b.WriteString(m.File)
		if m.Line > 0 {
			fmt.Fprintf(&b, ":%d", m.Line)
			if m.Col > 0 {
				fmt.Fprintf(&b, ":%d", m.Col)
			}
		}
		b.WriteString(": ")
	}
	return b.String() + string(m.Severity) + ": " + m.Text
}

var (
	reCompiler = regexp.MustCompile(`^(.*?)\((\d+)\): (catastrophic error|internal error|error|warning|remark|note)(?: #(\S+?))?: (.*)$`)
	rePtxas    = regexp.MustCompile(`^ptxas\s+(.*?)(?:, line (\d+))?\s*; (error|warning|info)\s*: (.*)$`)
	rePlain    = regexp.MustCompile(`^(?:nvrtc|ptxas|nvlink|nvJitLink)(?::| )\s*(fatal|error|warning)\s*: (.*)$`)
	rePerfLoss = regexp.MustCompile(`^ptxas info\s*: \((C\d+)\) (.*)$`)
	reCaret    = regexp.MustCompile(`^\s*\^\s*$`)
)

// logIndent is what NVRTC puts before a source line that it quotes.
const logIndent = 2

// ParseLog reads the messages in an NVRTC log, in order. Lines that belong to
// no message are left out.
func ParseLog(log string) []Message {
	var out []Message
	lines := strings.Split(strings.ReplaceAll(log, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if m := reCompiler.FindStringSubmatch(line); m != nil {
			msg := Message{File: m[1], Severity: severity(m[3]), Code: m[4], Text: m[5]}
			msg.Line, _ = strconv.Atoi(m[2])
			// The quoted line and the caret follow, after continuation lines if any.
			for j := i + 1; j < len(lines) && j < i+8 && lines[j] != ""; j++ {
				if j > i+1 && reCaret.MatchString(lines[j]) && len(lines[j-1]) >= logIndent {
					msg.Source = lines[j-1][logIndent:]
					msg.Col = max(1, strings.IndexByte(lines[j], '^')-logIndent+1)
					for _, c := range lines[i+1 : j-1] {
						msg.Text += " " + strings.TrimSpace(c)
					}
					i = j
					break
				}
			}
			out = append(out, msg)
		} else if m := rePtxas.FindStringSubmatch(line); m != nil {
			msg := Message{File: "ptx", Severity: severity(m[3]), Text: m[4]}
			msg.Line, _ = strconv.Atoi(m[2])
			out = append(out, msg)
		} else if m := rePlain.FindStringSubmatch(line); m != nil {
			out = append(out, Message{Severity: severity(m[1]), Text: m[2]})
		} else if m := rePerfLoss.FindStringSubmatch(line); m != nil {
			out = append(out, Message{Severity: SevWarning, Code: m[1], Text: m[2]})
		}
	}
	return out
}

func severity(word string) Severity {
	switch word {
	case "warning":
		return SevWarning
	case "remark", "note", "info":
		return SevNote
	}
	return SevError
}

var (
	rePtxasEntry = regexp.MustCompile(`^ptxas info\s*: Compiling entry function '(.*?)' for '`)
	reProperties = regexp.MustCompile(`^ptxas info\s*: Function properties for (.*)$`)
	reSpill      = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	reUsed       = regexp.MustCompile(`^ptxas info\s*: Used (\d+) registers(.*)$`)
	reBarriers   = regexp.MustCompile(`used (\d+) barriers`)
	rePtxasInfo  = regexp.MustCompile(`^ptxas\s+(info\s*:|\.)`)
)

// usage is what ptxas -v reports about one kernel.
type usage struct {
	regs, stack, spillSt, spillLd, barriers int
}

// splitUsage takes ptxas's report on resources out of a log.
func splitUsage(log string) (rest string, byKernel map[string]usage) {
	byKernel = map[string]usage{}
	var keep []string
	entry, about := "", ""
	for line := range strings.SplitSeq(log, "\n") {
		if !rePtxasInfo.MatchString(line) || rePerfLoss.MatchString(line) {
			keep = append(keep, line)
			continue
		}
		if m := rePtxasEntry.FindStringSubmatch(line); m != nil {
			entry, about = m[1], m[1]
			byKernel[entry] = usage{}
		} else if m := reProperties.FindStringSubmatch(line); m != nil {
			about = strings.TrimSpace(m[1])
		} else if m := reSpill.FindStringSubmatch(line); m != nil && about == entry && entry != "" {
			u := byKernel[entry]
			u.stack, _ = strconv.Atoi(m[1])
			u.spillSt, _ = strconv.Atoi(m[2])
			u.spillLd, _ = strconv.Atoi(m[3])
			byKernel[entry] = u
		} else if m := reUsed.FindStringSubmatch(line); m != nil && entry != "" {
			u := byKernel[entry]
			u.regs, _ = strconv.Atoi(m[1])
			if b := reBarriers.FindStringSubmatch(m[2]); b != nil {
				u.barriers, _ = strconv.Atoi(b[1])
			}
			byKernel[entry] = u
		}
	}
	return strings.Join(keep, "\n"), byKernel
}
