package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lowertrace/internal/corpus"
	"lowertrace/internal/launch"
)

// refSpec is one entry of another compiler's specs.json: the launches of one
// lowering as steps, with every size a number.
type refSpec struct {
	Kernel  string `json:"kernel"`
	Arch    string `json:"arch"`
	Cubin   string `json:"cubin"`
	Buffers map[string]struct {
		Shape   []int64 `json:"shape"`
		Strides []int64 `json:"strides"`
		DType   string  `json:"dtype"`
		Role    string  `json:"role"`
	} `json:"buffers"`
	Work map[string]struct {
		Shape []int64 `json:"shape"`
		DType string  `json:"dtype"`
	} `json:"work"`
	Steps []refStep `json:"steps"`
}

// refStep is a launch, or the setting ("l2set") and clearing ("l2reset") of
// the access policy window for the launches between.
type refStep struct {
	Op      string     `json:"op"`
	Kernel  string     `json:"kernel"`
	Grid    [3]int64   `json:"grid"`
	Block   [3]int64   `json:"block"`
	SMem    int64      `json:"smem"`
	Cluster *[3]int    `json:"cluster"`
	Coop    bool       `json:"coop"`
	PDL     bool       `json:"pdl"`
	Params  []refParam `json:"params"`
	Buffer  string     `json:"buffer"`
	Bytes   int64      `json:"bytes"`
	Ratio   float64    `json:"ratio"`
}

type refParam struct {
	Buffer string          `json:"buffer"`
	Scalar json.RawMessage `json:"scalar"`
	DType  json.RawMessage `json:"dtype"` // a name, or a tensor map's number
	TMA    string          `json:"tma"`   // "tiled" or "im2col"
	Name   string          `json:"name"`
	GDim   []int64         `json:"gdim"`
	Stride []int64         `json:"gstride_all"`
	Box    []int           `json:"box"`
	EStr   []int           `json:"estride"`
	Lower  []int           `json:"lower"`
	Upper  []int           `json:"upper"`
	Chan   int             `json:"channels"`
	Pixels int             `json:"pixels"`
	Tail   [4]int          `json:"tail"` // interleave, swizzle, L2 promotion, out-of-bounds fill
}

// readReference reads specs.json, by KERNEL.ARCH.
func readReference(dir string) (map[string]*refSpec, error) {
	b, err := os.ReadFile(filepath.Join(dir, "specs.json"))
	if err != nil {
		return nil, err
	}
	var list []*refSpec
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("specs.json: %w", err)
	}
	out := map[string]*refSpec{}
	for _, s := range list {
		out[s.Kernel+"."+s.Arch] = s
	}
	return out, nil
}

// write puts the cubin and a launch.json of our form into dir.
func (s *refSpec) write(k corpus.Kernel, from, dir string) error {
	spec, err := s.convert(k)
	if err != nil {
		return err
	}
	if err := spec.Check(); err != nil {
		return err
	}
	cubin, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(s.Cubin)))
	if err != nil {
		return err
	}
	js, err := spec.Format()
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"launch.json": js, spec.Cubin: cubin})
}

func (s *refSpec) convert(k corpus.Kernel) (*launch.Spec, error) {
	out := &launch.Spec{Version: launch.Version, Name: s.Kernel, ArchLowered: s.Arch, Cubin: "kernel.cubin", Buffers: map[string]launch.Buffer{}}
	for _, p := range k.Params {
		b, ok := s.Buffers[p.Name]
		if !ok {
			continue // a scalar: its value stands in the parameters
		}
		at := len(out.Args)
		out.Args = append(out.Args, p.Name)
		out.Buffers[p.Name] = launch.Buffer{Index: &at, Shape: sizes(b.Shape), Strides: sizes(b.Strides), DType: b.DType, Role: launch.Role(b.Role)}
	}
	for name, w := range s.Work {
		out.Buffers[name] = launch.Buffer{Shape: sizes(w.Shape), DType: w.DType, Role: launch.Workspace}
	}
	var window []launch.Window
	for _, st := range s.Steps {
		switch st.Op {
		case "l2set":
			window = []launch.Window{{Buffer: st.Buffer, Bytes: launch.Const(st.Bytes), Ratio: st.Ratio}}
			continue
		case "l2reset":
			window = nil
			continue
		}
		l := launch.Launch{Kernel: st.Kernel, SMem: launch.Const(st.SMem), Cluster: st.Cluster, Cooperative: st.Coop, Programmatic: st.PDL, L2: window}
		copy(l.Grid[:], sizes(st.Grid[:]))
		copy(l.Block[:], sizes(st.Block[:]))
		for _, p := range st.Params {
			q, err := p.convert()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", st.Kernel, err)
			}
			l.Params = append(l.Params, q)
		}
		out.Launches = append(out.Launches, l)
	}
	return out, nil
}

func (p *refParam) convert() (launch.Param, error) {
	switch {
	case p.TMA != "":
		q := launch.Param{Buffer: p.Buffer, TMA: p.Name, Mode: p.TMA, GDim: sizes(p.GDim), GStrideAll: sizes(p.Stride), Box: p.Box, Lower: p.Lower, Upper: p.Upper,
			Channels: p.Chan, Pixels: p.Pixels, EStride: p.EStr, Interleave: p.Tail[0], Swizzle: p.Tail[1], L2Promotion: p.Tail[2], OOBFill: p.Tail[3]}
		err := json.Unmarshal(p.DType, &q.DataType)
		return q, err
	case p.Buffer != "":
		return launch.Param{Buffer: p.Buffer}, nil
	}
	var q launch.Param
	if err := json.Unmarshal(p.Scalar, &q.Scalar); err != nil {
		return q, err
	}
	err := json.Unmarshal(p.DType, &q.ScalarDType)
	return q, err
}

// sizes returns nil for an empty list.
func sizes(in []int64) []launch.Size {
	var out []launch.Size
	for _, n := range in {
		out = append(out, launch.Const(n))
	}
	return out
}
