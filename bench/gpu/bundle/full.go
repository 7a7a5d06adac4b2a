package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lowertrace/internal/gpu"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
)

// fullCase is one kernel at full size in full.json: what it computes, ours and
// the reference's code for it. Either folder may be missing.
type fullCase struct {
	ID     string         `json:"id"`
	Family string         `json:"family"`
	Meta   map[string]any `json:"meta"` // sizes and types, by family
	Ours   string         `json:"ours,omitempty"`
	Ref    string         `json:"ref,omitempty"`
}

// fullSpec is DIR/specs/NAME.json: close to launch.json, but without version,
// arguments and roles.
type fullSpec struct {
	Name        string         `json:"name"`
	Family      string         `json:"family"`
	Meta        map[string]any `json:"meta"`
	ArchLowered string         `json:"arch_lowered"`
	PassConfigs map[string]any `json:"pass_configs"`
	Buffers     map[string]struct {
		Index int           `json:"index"`
		Shape []launch.Size `json:"shape"`
		DType string        `json:"dtype"`
	} `json:"buffers"`
	Launches []launch.Launch `json:"launches"`
	Cubin    string          `json:"cubin"` // empty if the reference cannot compile it
}

// addFull adds the kernels of full size in o.full: inputs/NAME.tir lowered and
// compiled by us, cubin/NAME.cubin of another compiler, specs/NAME.json.
func addFull(nvrtc *gpu.NVRTC, o options) error {
	names, err := filepath.Glob(filepath.Join(o.full, "specs", "*.json"))
	if err != nil {
		return err
	}
	var list struct {
		Cases  []fullCase `json:"cases"`
		Failed []failure  `json:"failed"`
	}
	ours := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var s fullSpec
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if !o.only.MatchString(s.Name) {
			continue
		}
		c := fullCase{ID: s.Name, Family: s.Family, Meta: s.Meta}
		if s.Cubin != "" {
			c.Ref = "full/" + s.Name + "/ref"
			if err := s.write(o, filepath.Join(o.out, c.Ref)); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		text, err := os.ReadFile(filepath.Join(o.full, "inputs", s.Name+".tir"))
		if err != nil {
			return err
		}
		dir := "full/" + s.Name + "/ours"
		target := s.ArchLowered
		options := pipeline.Options{}
		for k, v := range s.PassConfigs {
			_ = options.Set(k, fmt.Sprint(v)) // the other compiler has passes of its own
		}
		mod, err := script.ParseString(s.Name+".tir", string(text))
		if err == nil {
			err = makeCase(nvrtc, mod, target, o.arch, filepath.Join(o.out, dir), options)
		}
		if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			list.Failed = append(list.Failed, failure{s.Name, why})
		} else {
			c.Ours = dir
			ours++
		}
		list.Cases = append(list.Cases, c)
	}
	for _, f := range list.Failed {
		fmt.Printf("%-44s %s\n", f.ID, f.Why)
	}
	fmt.Printf("full size: %d of %d lowered\n", ours, len(list.Cases))
	root, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(root, "full.json"), list)
}

// write puts the reference's cubin and a launch.json of our form into dir.
func (s *fullSpec) write(o options, dir string) error {
	spec := &launch.Spec{Version: launch.Version, Name: s.Name, ArchLowered: s.ArchLowered, PassConfigs: s.PassConfigs, Cubin: "kernel.cubin",
		Args: make([]string, len(s.Buffers)), Buffers: map[string]launch.Buffer{}, Launches: s.Launches}
	for name, b := range s.Buffers {
		if b.Index < 0 || b.Index >= len(spec.Args) {
			return fmt.Errorf("buffer %s has index %d", name, b.Index)
		}
		spec.Args[b.Index] = name
		spec.Buffers[name] = launch.Buffer{Index: &b.Index, Shape: b.Shape, DType: b.DType, Role: launch.InOut}
	}
	if err := spec.Check(); err != nil {
		return err
	}
	js, err := spec.Format()
	if err != nil {
		return err
	}
	cubin, err := os.ReadFile(filepath.Join(o.full, filepath.FromSlash(s.Cubin)))
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"launch.json": js, spec.Cubin: cubin})
}
