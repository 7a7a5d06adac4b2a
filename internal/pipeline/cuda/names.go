package cuda

import (
	"regexp"
	"strconv"
)

// typeName matches the names of the prelude's types.
var typeName = regexp.MustCompile(`^(half|bfloat16|fp8_e[0-9]m[0-9]|u?int|float|bool)[0-9]*(x[0-9]+)?_t$`)

// scopes hands out C++ identifiers: unique among the names visible at a
// point, so that sibling loops share a name but nothing is shadowed.
type scopes struct {
	stack []map[string]bool
	// reserved are the prelude's names and the words of C++ and CUDA.
	reserved map[string]bool
}

func (s *scopes) push() { s.stack = append(s.stack, map[string]bool{}) }
func (s *scopes) pop()  { s.stack = s.stack[:len(s.stack)-1] }

func (s *scopes) taken(name string) bool {
	if s.reserved[name] || keywords[name] || cudaNames[name] || helperNames[name] || typeName.MatchString(name) {
		return true
	}
	for _, m := range s.stack {
		if m[name] {
			return true
		}
	}
	return false
}

// fresh declares a name in the innermost scope: want itself, or with a number.
func (s *scopes) fresh(want string) string {
	want = identifier(want)
	name := want
	for i := 1; s.taken(name); i++ {
		name = want + "_" + strconv.Itoa(i)
	}
	s.stack[len(s.stack)-1][name] = true
	return name
}

// identifier makes a name a C++ identifier: other characters become
// underscores, and the double underscore, which C++ reserves, is broken up.
func identifier(s string) string {
	b := make([]byte, 0, len(s)+1)
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !ok {
			c = '_'
		}
		if c == '_' && len(b) > 0 && b[len(b)-1] == '_' {
			continue
		}
		b = append(b, c)
	}
	if len(b) == 0 || '0' <= b[0] && b[0] <= '9' {
		b = append([]byte{'v'}, b...)
	}
	if len(b) > 1 && b[0] == '_' && 'A' <= b[1] && b[1] <= 'Z' {
		b = append([]byte{'v'}, b...)
	}
	return string(b)
}

// isIdentifier reports a name that C++ can spell.
func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') && !(i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != "" && !keywords[s]
}

// keywords are the words of C++ that are no names.
var keywords = set(
	"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
	"char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr", "constinit",
	"const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do", "double",
	"dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
	"inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
	"or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short", "signed",
	"sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
	"true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
	"wchar_t", "while", "xor", "xor_eq",
)

// cudaNames are what CUDA defines in every translation unit and generated
// code uses, or its author would be surprised to find hidden.
var cudaNames = set(
	"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3", "uint3", "printf", "assert", "malloc", "free",
	"memcpy", "memset", "clock", "clock64", "min", "max", "abs", "isnan", "isinf", "isfinite", "signbit", "uint", "ushort", "ulong", "uchar",
	"cudaStream_t", "cudaError_t", "size_t", "ptrdiff_t", "nullptr_t", "NULL", "INFINITY", "NAN", "main", "std", "cuda", "nv",
	"char2", "char4", "uchar2", "uchar4", "short2", "short4", "ushort2", "ushort4", "int2", "int4", "uint2", "uint4",
	"longlong2", "ulonglong2", "float2", "float4", "double2",
	"exp", "expf", "exp2", "exp2f", "exp10", "exp10f", "log", "logf", "log2", "log2f", "log10", "log10f", "log1p", "log1pf",
	"sin", "sinf", "cos", "cosf", "tan", "tanf", "sinh", "sinhf", "cosh", "coshf", "tanh", "tanhf", "asin", "asinf", "acos",
	"acosf", "atan", "atanf", "asinh", "acosh", "atanh", "atan2", "atan2f", "erf", "erff", "sqrt", "sqrtf", "rsqrt", "rsqrtf",
	"floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "round", "roundf", "rint", "rintf", "nearbyint", "nearbyintf",
	"fabs", "fabsf", "pow", "powf", "fmod", "fmodf", "fma", "fmaf", "hypot", "hypotf", "copysign", "copysignf", "ldexp", "ldexpf",
	"atomicAdd", "atomicMin", "atomicMax", "atomicCAS", "atomicExch", "atomicAnd", "atomicOr", "atomicXor", "atomicSub",
)

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}
