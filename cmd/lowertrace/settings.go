package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"lowertrace/internal/driver"
)

// configName is the settings file looked for in the working directory.
const configName = "lowertrace.yaml"

// setting is one thing a flag, an environment variable or the settings file
// can say. Flags of the same name exist on the commands that use it.
type setting struct {
	key  string
	envs []string // in order of precedence
	def  any
	doc  string
}

// settingTable is every setting, in the order `config show` lists them.
var settingTable = []setting{
	{"mode", []string{"LOWERTRACE_MODE", "TL_LOWER_TRACE"}, "terminal", "what a run shows: off, terminal, html or both"},
	{"trace-dir", []string{"LOWERTRACE_TRACE_DIR", "TL_LOWER_TRACE_DIR"}, driver.DefaultTraceDir, "base directory of run directories"},
	{"target", []string{"LOWERTRACE_TARGET"}, "", "architecture to lower for: sm_80, sm_86, sm_89 or sm_90a"},
	{"arch", []string{"LOWERTRACE_ARCH"}, "", "architecture to compile for; default: the target"},
	{"pipeline", []string{"LOWERTRACE_PIPELINE"}, driver.DefaultPipeline, "pipeline to run (see lowertrace passes)"},
	{"pass-config", nil, []string{}, "pass option KEY=VALUE; may repeat"},
	{"codegen-output", []string{"LOWERTRACE_CODEGEN_OUTPUT"}, "", "working copy of the generated code: a path, or none"},
	{"context", []string{"LOWERTRACE_CONTEXT"}, 3, "lines of context in diffs"},
	{"host", []string{"LOWERTRACE_HOST"}, false, "show host code in diffs"},
	{"verify-each", []string{"LOWERTRACE_VERIFY_EACH"}, false, "check the IR after every pass"},
	{"color", []string{"LOWERTRACE_COLOR"}, "auto", "color: auto, always or never"},
}

// settings resolves them: flag, then environment, then settings file, then
// default.
type settings struct {
	v          *viper.Viper
	configFile string
	flags      *pflag.FlagSet // of the command that runs
}

func newSettings() *settings { return &settings{v: viper.New()} }

func (s *settings) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.configFile, "config", "", "settings file (default "+configName+" in the working directory)")
	s.addFlags(f, "color")
}

// addFlags defines the flags of settings on a command.
func (s *settings) addFlags(f *pflag.FlagSet, keys ...string) {
	for _, k := range keys {
		st := lookupSetting(k)
		switch def := st.def.(type) {
		case string:
			f.String(k, def, st.doc)
		case int:
			f.Int(k, def, st.doc)
		case bool:
			f.Bool(k, def, st.doc)
		case []string:
			f.StringArray(k, def, st.doc)
		}
	}
}

func lookupSetting(key string) setting {
	i := slices.IndexFunc(settingTable, func(s setting) bool { return s.key == key })
	if i < 0 {
		panic("no setting " + key)
	}
	return settingTable[i]
}

// load reads the settings file and takes the flags of the command that runs.
func (s *settings) load(cmd *cobra.Command) error {
	s.flags = cmd.Flags()
	for _, st := range settingTable {
		s.v.SetDefault(st.key, st.def)
		if len(st.envs) > 0 {
			if err := s.v.BindEnv(append([]string{st.key}, st.envs...)...); err != nil {
				return err
			}
		}
	}
	path := s.configFile
	if path == "" {
		if _, err := os.Stat(configName); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		path = configName
	}
	s.v.SetConfigFile(path)
	s.v.SetConfigType("yaml")
	if err := s.v.ReadInConfig(); err != nil {
		return driver.Usagef("settings file %s: %v", path, err)
	}
	for _, k := range s.v.AllKeys() {
		if !slices.ContainsFunc(settingTable, func(st setting) bool { return st.key == k }) && s.v.InConfig(k) {
			return driver.Usagef("settings file %s: unknown key %q%s", path, k, driver.DidYouMean(k, settingKeys()))
		}
	}
	return nil
}

func settingKeys() []string {
	var keys []string
	for _, st := range settingTable {
		keys = append(keys, st.key)
	}
	return keys
}

// origin says where the value of a setting comes from.
func (s *settings) origin(key string) string {
	if f := s.flags.Lookup(key); f != nil && f.Changed {
		return "flag --" + key
	}
	for _, e := range lookupSetting(key).envs {
		if os.Getenv(e) != "" {
			return "environment " + e
		}
	}
	if s.v.InConfig(key) {
		return "file " + s.v.ConfigFileUsed()
	}
	return "default"
}

func (s *settings) fromFlag(key string) bool {
	f := s.flags.Lookup(key)
	return f != nil && f.Changed
}

func (s *settings) str(key string) string {
	if s.fromFlag(key) {
		v, _ := s.flags.GetString(key)
		return v
	}
	return s.v.GetString(key)
}

func (s *settings) bool(key string) bool {
	if s.fromFlag(key) {
		v, _ := s.flags.GetBool(key)
		return v
	}
	return s.v.GetBool(key)
}

func (s *settings) int(key string) (int, error) {
	if s.fromFlag(key) {
		return s.flags.GetInt(key)
	}
	n := s.v.GetInt(key)
	if raw := strings.TrimSpace(s.v.GetString(key)); fmt.Sprint(n) != raw {
		return 0, driver.Usagef("%s (%s): expected an integer, got %q", key, s.origin(key), raw)
	}
	return n, nil
}

func (s *settings) list(key string) []string {
	if s.fromFlag(key) {
		v, _ := s.flags.GetStringArray(key)
		return v
	}
	return s.v.GetStringSlice(key)
}

// mode is the mode of a run. The words of TL_LOWER_TRACE are understood from
// every source.
func (s *settings) mode() (driver.Mode, error) {
	m, err := driver.ParseMode(s.str("mode"))
	if err != nil {
		return m, driver.Usagef("%s: %v", s.origin("mode"), err)
	}
	return m, nil
}

// addSourceFlags defines the flags that say how a kernel's file is read.
func addSourceFlags(f *pflag.FlagSet, o *driver.SourceOptions) {
	f.StringVar(&o.Func, "func", "", "kernel to take, of a file with several; run and build take a comma-separated list")
	f.StringArrayVar(&o.Set, "set", nil, "NAME=VALUE for an argument, constant, symbolic size or scalar; may repeat")
}
