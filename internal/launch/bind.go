package launch

import "fmt"

// Extent is a buffer argument's actual shape and strides, in elements; nil
// strides mean row-major without gaps.
type Extent struct{ Shape, Strides []int64 }

// stride returns stride d.
func (e Extent) stride(d int) (int64, bool) {
	if e.Strides != nil {
		return e.Strides[d], true
	}
	n := int64(1)
	for _, s := range e.Shape[d+1:] {
		var ok bool
		if n, ok = mul(n, s); !ok {
			return 0, false
		}
	}
	return n, true
}

// Bind gives the symbols their values from the actual buffers, adds the integer
// scalar arguments, and checks that every buffer is as described. The result
// evaluates all sizes of the description.
func (s *Spec) Bind(buffers map[string]Extent, scalars map[string]int64) (Env, error) {
	for _, name := range s.Args {
		if b, ok := s.Buffers[name]; ok {
			e, ok := buffers[name]
			if !ok {
				return nil, fmt.Errorf("%s: buffer %s is not given", s.Name, name)
			}
			if len(e.Shape) != len(b.Shape) || e.Strides != nil && len(e.Strides) != len(e.Shape) {
				return nil, fmt.Errorf("%s: buffer %s has shape %v, which is not of %d dimensions", s.Name, name, e.Shape, len(b.Shape))
			}
		} else if _, ok := scalars[name]; !ok && IsInteger(s.Scalars[name].DType) {
			return nil, fmt.Errorf("%s: scalar %s is not given", s.Name, name)
		}
	}
	env := Env{}
	for _, name := range sortedKeys(s.Scalars) {
		if v, ok := scalars[name]; ok {
			if _, err := IntBits(v, s.Scalars[name].DType); err != nil {
				return nil, fmt.Errorf("%s: scalar %s: %w", s.Name, name, err)
			}
			env[name] = v
		}
	}
	for _, name := range sortedKeys(s.Symbols) {
		y := s.Symbols[name]
		e := buffers[y.Buffer]
		var v int64
		if y.Dim != nil {
			v = e.Shape[*y.Dim]
		} else {
			var ok bool
			if v, ok = e.stride(*y.Stride); !ok {
				return nil, fmt.Errorf("%s: buffer %s of shape %v is too large", s.Name, y.Buffer, e.Shape)
			}
		}
		if _, err := IntBits(v, y.DType); err != nil {
			return nil, fmt.Errorf("%s: symbol %s: %w", s.Name, name, err)
		}
		env[name] = v
	}
	for _, name := range s.Args {
		b, ok := s.Buffers[name]
		if !ok {
			continue
		}
		e := buffers[name]
		for d, z := range b.Shape {
			want, err := z.Eval(env)
			if err != nil {
				return nil, fmt.Errorf("%s: buffer %s: %w", s.Name, name, err)
			}
			if want != e.Shape[d] {
				return nil, fmt.Errorf("%s: buffer %s has shape %v, but dimension %d must be %s = %d", s.Name, name, e.Shape, d, z, want)
			}
			if b.Strides == nil && e.Strides == nil {
				continue
			}
			have, ok := e.stride(d)
			if !ok {
				return nil, fmt.Errorf("%s: buffer %s of shape %v is too large", s.Name, name, e.Shape)
			}
			if b.Strides != nil {
				if want, err = b.Strides[d].Eval(env); err != nil {
					return nil, fmt.Errorf("%s: buffer %s: %w", s.Name, name, err)
				}
			} else if want, ok = (Extent{Shape: e.Shape}).stride(d); !ok {
				return nil, fmt.Errorf("%s: buffer %s of shape %v is too large", s.Name, name, e.Shape)
			}
			if want != have && e.Shape[d] > 1 {
				return nil, fmt.Errorf("%s: buffer %s has stride %d in dimension %d, which must be %d", s.Name, name, have, d, want)
			}
		}
	}
	return env, nil
}
