package pipeline

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Option is a setting of passes, given by --pass-config KEY=VALUE or
// @tilelang.jit(pass_configs=...).
type Option struct {
	Key     string // TileLang's or TVM's key, for example "tl.disable_vectorize_256"
	Default any    // bool, int or string; says the type
	Doc     string
}

// Options are the settings that differ from their defaults.
type Options map[string]any

var optionTable = map[string]Option{}

// RegisterOption adds an option to the table; packages do so when they are
// initialised, next to the pass that reads it.
func RegisterOption(o Option) string {
	if _, dup := optionTable[o.Key]; dup {
		panic("pipeline: option " + o.Key + " is registered twice")
	}
	switch o.Default.(type) {
	case bool, int, string:
	default:
		panic("pipeline: option " + o.Key + " has no usable default")
	}
	optionTable[o.Key] = o
	return o.Key
}

// OptionTable is every option, sorted by key.
func OptionTable() []Option {
	out := make([]Option, 0, len(optionTable))
	for _, o := range optionTable {
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// Set parses VALUE by the type of KEY and stores it.
func (o Options) Set(key, value string) error {
	opt, ok := optionTable[key]
	if !ok {
		return &UnknownNameError{"pass option", key, keysOf(optionTable)}
	}
	switch opt.Default.(type) {
	case bool:
		switch strings.ToLower(value) {
		case "1", "true", "on", "yes":
			o[key] = true
		case "0", "false", "off", "no":
			o[key] = false
		default:
			return fmt.Errorf("%s is a bool: expected true or false, got %q", key, value)
		}
	case int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s is an integer, got %q", key, value)
		}
		o[key] = n
	case string:
		o[key] = value
	}
	return nil
}

// UnknownNameError says that no pass, option or target has a name.
type UnknownNameError struct {
	Kind, Name string
	Known      []string
}

func (e *UnknownNameError) Error() string { return fmt.Sprintf("unknown %s %q", e.Kind, e.Name) }

func keysOf[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// Bool is the value of a bool option.
func (c *Context) Bool(key string) bool { return optionValue[bool](c, key) }

// Int is the value of an integer option.
func (c *Context) Int(key string) int { return optionValue[int](c, key) }

func optionValue[T any](c *Context, key string) T {
	if v, ok := c.Options[key]; ok {
		return v.(T)
	}
	o, ok := optionTable[key]
	if !ok {
		panic("pipeline: option " + key + " is not registered")
	}
	return o.Default.(T)
}
