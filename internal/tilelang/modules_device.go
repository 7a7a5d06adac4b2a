package tilelang

import (
	"strconv"
	"strings"
)

// A kernel's Python may ask for the GPU that it runs on. The answers are those
// of Options.Arch, for which the kernel is compiled: its compute capability,
// and the multiprocessors of the data-centre part that has it.

// multiprocessors is the number of SMs by architecture, from NVIDIA's data
// sheets: V100, T4, A100, A40, L40, H100 SXM.
var multiprocessors = map[string]int64{"70": 80, "75": 40, "80": 108, "86": 84, "89": 142, "90": 132}

// smSetting is the setting that gives another number of SMs.
const smSetting = "num_sms"

// capability is the compute capability of the target: 8 and 0 of sm_80.
func (in *interp) capability() (major, minor int64, ok bool) {
	in.askedDevice = true
	digits := in.archDigits()
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) < 2 {
		return 0, 0, false
	}
	return n / 10, n % 10, true
}

// archDigits is 90 of sm_90a.
func (in *interp) archDigits() string {
	return strings.TrimRight(strings.TrimPrefix(in.arch, "sm_"), "af")
}

// numSMs is the number of SMs: that of the setting, or of the target.
func (in *interp) numSMs() value {
	in.askedDevice = true
	if s, given := in.sel.set[smSetting]; given && !in.sel.claims[smSetting] {
		if n, ok := in.settingValue(s).(int64); ok && n > 0 {
			in.sel.used[smSetting] = true
			in.sel.numSMs = n
			return n
		}
		panic(in.errorf("--set %s=%s: expected a positive number of multiprocessors", smSetting, s.Value).is("ValueError"))
	}
	n, ok := multiprocessors[in.archDigits()]
	if !ok {
		return &unknown{what: "the number of multiprocessors", at: in.here()}
	}
	in.sel.numSMs = n
	return n
}

// driverModule is tilelang.carver.arch.driver.
func (in *interp) driverModule() value {
	return known("tilelang.carver.arch.driver", map[string]value{
		"get_num_sms": rawBuiltin("get_num_sms", func(in *interp, a *args) value { return in.numSMs() }),
	})
}

// torchSubmodule is torch.cuda or torch.version; nil for other names.
func (in *interp) torchSubmodule(name string) value {
	switch name {
	case "torch.cuda":
		return torchCUDA()
	case "torch.version":
		return &module{name: name, attrs: map[string]value{"hip": none}, get: func(in *interp, n string) (value, bool) {
			return &unknown{what: name + "." + n, at: in.here()}, true
		}}
	}
	return nil
}

// torchCUDA answers for the target what does not depend on a GPU at hand.
func torchCUDA() value {
	m := &module{name: "torch.cuda", attrs: map[string]value{}}
	def := func(name string, fn func(in *interp) (value, bool)) {
		m.attrs[name] = rawBuiltin("torch.cuda."+name, func(in *interp, a *args) value {
			if v, ok := fn(in); ok {
				return v
			}
			return &unknown{what: "torch.cuda." + name + "(...)", at: in.here()}
		})
	}
	def("is_available", func(in *interp) (value, bool) { return true, true })
	def("device_count", func(in *interp) (value, bool) { return int64(1), true })
	def("current_device", func(in *interp) (value, bool) { return int64(0), true })
	def("get_device_capability", func(in *interp) (value, bool) {
		major, minor, ok := in.capability()
		return &tuple{[]value{major, minor}}, ok
	})
	def("get_device_properties", func(in *interp) (value, bool) {
		major, minor, ok := in.capability()
		if !ok {
			return nil, false
		}
		p := &module{name: "the device's properties", attrs: map[string]value{"major": major, "minor": minor}}
		p.get = func(in *interp, name string) (value, bool) {
			if name == "multi_processor_count" {
				return in.numSMs(), true
			}
			return &unknown{what: "torch.cuda.get_device_properties(...)." + name, at: in.here()}, true
		}
		return p, true
	})
	m.get = func(in *interp, name string) (value, bool) {
		return &unknown{what: "torch.cuda." + name, at: in.here()}, true
	}
	return m
}
