package driver

import "testing"

func TestParseMode(t *testing.T) {
	for words, want := range map[Mode][]string{
		ModeOff:      {"0", "off", "false", "no", "OFF", " No "},
		ModeHTML:     {"1", "on", "true", "yes", "html", "Html", "\tYES\n"},
		ModeTerminal: {"terminal", "Terminal "},
		ModeBoth:     {"both", "BOTH"},
	} {
		for _, w := range want {
			if got, err := ParseMode(w); err != nil || got != words {
				t.Errorf("%q: %v, %v", w, got, err)
			}
		}
	}
	for _, w := range []string{"", "2", "htm", "terminal,html", "y"} {
		if got, err := ParseMode(w); err == nil {
			t.Errorf("%q is taken for %v", w, got)
		}
	}
}
