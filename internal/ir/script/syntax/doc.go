// Package syntax reads the Python subset in which kernels are written, as
// TVMScript and as TileLang source, into a syntax tree. It knows nothing of
// what names mean: that is for package script (text to IR) and package
// tilelang (an evaluator).
//
// The lexer turns indentation into tokens, the expression parser is an
// operator-precedence one, and after a mistake the parser resumes with the
// next statement, so that several mistakes are reported at once. Nodes hold
// byte offsets into their source. Two things go beyond Python: keyword
// arguments may have dotted names (`tl.stage=1`), and comments are kept.
package syntax
