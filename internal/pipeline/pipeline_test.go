package pipeline

import (
	"errors"
	"reflect"
	"testing"

	"lowertrace/internal/ir"
)

// logPass makes a pass that notes its label in log and returns a new module.
func logPass(name string, log *[]string) *Pass {
	return &Pass{Name: name, Run: func(c *Context, m *ir.IRModule) (*ir.IRModule, error) {
		*log = append(*log, c.stack[len(c.stack)-1].Label)
		return &ir.IRModule{Funcs: m.Funcs}, nil
	}}
}

func TestSelection(t *testing.T) {
	var log []string
	a, b, s := logPass("A", &log), logPass("B", &log), logPass("S", &log)
	never := func(*Context) (bool, string) { return false, "no TMA" }
	p := &PassPipeline{Backend: "x", Table: []Entry{
		{Pass: a}, {Pass: s}, {Pass: b, When: never}, {Pass: s}, {Pass: a, Phase: "unscoped", Aside: "host"}, {Pass: s},
	}}
	tests := []struct {
		name    string
		sel     Selection
		want    []string
		skipped []string
		err     any
	}{
		{"all", Selection{}, []string{"A#1", "S#1", "S#2", "A#2", "S#3"}, nil, nil},
		{"start", Selection{StartAt: "S#2"}, []string{"S#2", "A#2", "S#3"}, nil, nil},
		{"stop", Selection{StopAfter: "S#1"}, []string{"A#1", "S#1"}, nil, ErrStopped},
		{"skip all occurrences", Selection{Skip: []string{"S"}}, []string{"A#1", "A#2"}, []string{"S#1", "S#2", "S#3"}, nil},
		{"skip one", Selection{Skip: []string{"S#2"}}, []string{"A#1", "S#1", "A#2", "S#3"}, []string{"S#2"}, nil},
		{"only", Selection{Only: []string{"A#1", "B"}}, []string{"A#1"}, []string{"B"}, ErrStopped},
		{"ambiguous", Selection{StartAt: "S"}, nil, nil, &AmbiguousPassError{}},
		{"unknown", Selection{Skip: []string{"Nope"}}, nil, nil, &UnknownNameError{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			log = nil
			rec := &recorder{}
			c := &Context{Select: tc.sel, Instruments: []Instrument{rec}}
			_, err := p.Run(c, &ir.IRModule{})
			switch want := tc.err.(type) {
			case nil:
				if err != nil {
					t.Fatal(err)
				}
			case error:
				if want == ErrStopped && !errors.Is(err, ErrStopped) || reflect.TypeOf(want) != reflect.TypeOf(err) {
					t.Fatalf("error %v (%T), want a %T", err, err, want)
				}
			}
			if !reflect.DeepEqual(log, tc.want) {
				t.Errorf("ran %v, want %v", log, tc.want)
			}
			if !reflect.DeepEqual(rec.skipped, tc.skipped) {
				t.Errorf("recorded as skipped %v, want %v", rec.skipped, tc.skipped)
			}
		})
	}
}

type recorder struct {
	skipped []string
	nested  []int
}

func (r *recorder) Before(*Event) {}
func (r *recorder) After(e *Event) {
	if e.Skipped != "" {
		r.skipped = append(r.skipped, e.Label)
		return
	}
	r.nested = append(r.nested, e.Depth)
}

func TestAsideGoesOnWithTheModuleGiven(t *testing.T) {
	keep := func(name string) *Pass {
		return &Pass{Name: name, Run: func(_ *Context, m *ir.IRModule) (*ir.IRModule, error) {
			var out ir.IRModule
			for _, f := range m.Funcs {
				if f.Name == name {
					out.Funcs = append(out.Funcs, f)
				}
			}
			return &out, nil
		}}
	}
	p := &PassPipeline{Backend: "x", Table: []Entry{{Pass: keep("host"), Aside: "host"}, {Pass: keep("dev")}}}
	c := &Context{}
	m, err := p.Run(c, &ir.IRModule{Funcs: []*ir.PrimFunc{{Name: "host"}, {Name: "dev"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Funcs) != 1 || m.Funcs[0].Name != "dev" || len(c.Aside["host"].Funcs) != 1 {
		t.Errorf("main module %v, aside %v", m.Funcs, c.Aside)
	}
}

func TestNestedRunsAreDeeper(t *testing.T) {
	var log []string
	inner := logPass("Inner", &log)
	outer := &Pass{Name: "Outer", Run: func(c *Context, m *ir.IRModule) (*ir.IRModule, error) { return c.Run(inner, m) }}
	rec := &recorder{}
	p := &PassPipeline{Backend: "x", Table: []Entry{{Pass: outer}}}
	if _, err := p.Run(&Context{Instruments: []Instrument{rec}}, &ir.IRModule{}); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 0}; !reflect.DeepEqual(rec.nested, want) {
		t.Errorf("depths %v, want %v", rec.nested, want)
	}
}

func TestInterruptEndsBetweenPasses(t *testing.T) {
	var log []string
	stop := errors.New("interrupted")
	p := &PassPipeline{Backend: "x", Table: []Entry{{Pass: logPass("A", &log)}, {Pass: logPass("B", &log)}}}
	c := &Context{Interrupted: func() error {
		if len(log) > 0 {
			return stop
		}
		return nil
	}}
	if _, err := p.Run(c, &ir.IRModule{}); !errors.Is(err, stop) || len(log) != 1 {
		t.Errorf("error %v after %v", err, log)
	}
}

func TestOptions(t *testing.T) {
	key := RegisterOption(Option{Key: "test.flag", Default: false, Doc: "for this test"})
	defer delete(optionTable, key)
	o := Options{}
	for _, bad := range [][2]string{{key, "maybe"}, {"test.flagg", "true"}} {
		if o.Set(bad[0], bad[1]) == nil {
			t.Errorf("%s=%s is accepted", bad[0], bad[1])
		}
	}
	if err := o.Set(key, "on"); err != nil {
		t.Fatal(err)
	}
	if c := (&Context{Options: o}); !c.Bool(key) {
		t.Error("option is not set")
	}
}
