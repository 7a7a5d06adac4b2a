package main

import (
	"errors"
	"os"
	"slices"
	"strconv"
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
			return s.check()
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
	return s.check()
}

// check refuses numbers and truth values that are none. Those of flags were
// checked when they were parsed.
func (s *settings) check() error {
	for _, st := range settingTable {
		raw := strings.TrimSpace(s.v.GetString(st.key))
		switch st.def.(type) {
		case int:
			if _, err := strconv.Atoi(raw); err != nil {
				return driver.Usagef("%s (%s): expected an integer, got %q", st.key, s.origin(st.key), raw)
			}
		case bool:
			if _, err := strconv.ParseBool(raw); err != nil {
				return driver.Usagef("%s (%s): expected true or false, got %q", st.key, s.origin(st.key), raw)
			}
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

func (s *settings) int(key string) int {
	if s.fromFlag(key) {
		v, _ := s.flags.GetInt(key)
		return v
	}
	return s.v.GetInt(key)
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

// lowering loads the settings of a command that lowers a kernel, as far as it
// has flags for them.
func (s *settings) lowering(cmd *cobra.Command, d *driver.Deps, o *driver.RunOptions) (err error) {
	if err := s.load(cmd); err != nil {
		return err
	}
	for _, st := range settingTable {
		if s.flags.Lookup(st.key) == nil {
			continue
		}
		switch st.key {
		case "mode":
			o.Mode, err = s.mode()
		case "trace-dir":
			o.TraceDir = s.str(st.key)
		case "target":
			o.Target, o.TargetFromFlag = s.str(st.key), s.fromFlag(st.key)
		case "arch":
			o.Arch = s.str(st.key)
		case "pipeline":
			o.Pipeline, o.PipelineFromFlag = s.str(st.key), s.fromFlag(st.key)
		case "pass-config":
			o.PassConfig = s.list(st.key)
		case "codegen-output":
			o.CodegenOutput = s.str(st.key)
		case "context":
			o.Context = s.int(st.key)
		case "host":
			o.Host = s.bool(st.key)
		case "verify-each":
			o.VerifyEach = s.bool(st.key)
		case "color":
			err = d.SetColor(s.str(st.key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// viewing loads the settings of a command that shows runs.
func (s *settings) viewing(cmd *cobra.Command, d *driver.Deps) error {
	if err := s.load(cmd); err != nil {
		return err
	}
	return d.SetColor(s.str("color"))
}

// addPassFlags defines the flags that choose passes.
func addPassFlags(f *pflag.FlagSet, o *driver.RunOptions, names ...string) {
	for _, name := range names {
		switch name {
		case "start-at":
			f.StringVar(&o.StartAt, name, "", "first pass to run; FILE is the IR as it stands before it")
		case "stop-after":
			f.StringVar(&o.StopAfter, name, "", "last pass to run")
		case "skip":
			f.StringArrayVar(&o.Skip, name, nil, "leave out a pass; may repeat")
		case "only":
			f.StringSliceVar(&o.Only, name, nil, "run these passes alone, comma separated")
		}
	}
}

// addNVRTCFlag defines the flag that says where the compiler is.
func addNVRTCFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "nvrtc", "", "libnvrtc, or the folder of a toolkit or wheel that holds it")
}

// completeFlags offers the values of the flags that a command has.
func (s *settings) completeFlags(cmd *cobra.Command) {
	fixed := map[string][]string{
		"mode": driver.ModeNames(), "target": driver.TargetNames(), "arch": driver.TargetNames(),
		"pipeline": driver.PipelineNames(), "pass-config": driver.PassConfigKeys(),
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "start-at", "stop-after", "skip", "only":
			must(cmd.RegisterFlagCompletionFunc(f.Name, completePasses(s)))
		default:
			if words, ok := fixed[f.Name]; ok {
				must(cmd.RegisterFlagCompletionFunc(f.Name, fixedCompletion(words...)))
			}
		}
	})
}

// addSourceFlags defines the flags that say how a kernel's file is read.
func addSourceFlags(f *pflag.FlagSet, o *driver.SourceOptions) {
	f.StringVar(&o.Func, "func", "", "kernel to take, of a file with several")
	f.StringArrayVar(&o.Set, "set", nil, "NAME=VALUE for an argument, constant, symbolic size or scalar; may repeat")
}
