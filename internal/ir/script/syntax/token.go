package syntax

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tEOF tokenKind = iota
	tNewline
	tIndent
	tDedent
	tName
	tInt
	tFloat
	tString
	tBad // reported by the lexer

	// Punctuation.
	tLParen
	tRParen
	tLBracket
	tRBracket
	tLBrace
	tRBrace
	tComma
	tColon
	tSemicolon
	tDot
	tEllipsis
	tArrow
	tAssign
	tWalrus
	tAt
	tPlus
	tMinus
	tStar
	tStarStar
	tSlash
	tSlashSlash
	tPercent
	tShl
	tShr
	tAmp
	tPipe
	tCaret
	tTilde
	tEQ
	tNE
	tLT
	tLE
	tGT
	tGE
	tAugAssign // the operator is in token.op

	// Keywords.
	kwAnd
	kwAs
	kwAssert
	kwAsync
	kwAwait
	kwBreak
	kwClass
	kwContinue
	kwDef
	kwDel
	kwElif
	kwElse
	kwExcept
	kwFalse
	kwFinally
	kwFor
	kwFrom
	kwGlobal
	kwIf
	kwImport
	kwIn
	kwIs
	kwLambda
	kwNone
	kwNonlocal
	kwNot
	kwOr
	kwPass
	kwRaise
	kwReturn
	kwTrue
	kwTry
	kwWhile
	kwWith
	kwYield
	numTokens
)

var tokenText = [numTokens]string{
	tEOF: "end of file", tNewline: "end of line", tIndent: "indented block", tDedent: "end of block",
	tName: "name", tInt: "number", tFloat: "number", tString: "string", tBad: "bad token",
	tLParen: "(", tRParen: ")", tLBracket: "[", tRBracket: "]", tLBrace: "{", tRBrace: "}", tComma: ",",
	tColon: ":", tSemicolon: ";", tDot: ".", tEllipsis: "...", tArrow: "->", tAssign: "=", tWalrus: ":=", tAt: "@",
	tPlus: "+", tMinus: "-", tStar: "*", tStarStar: "**", tSlash: "/", tSlashSlash: "//", tPercent: "%",
	tShl: "<<", tShr: ">>", tAmp: "&", tPipe: "|", tCaret: "^", tTilde: "~", tEQ: "==", tNE: "!=", tLT: "<",
	tLE: "<=", tGT: ">", tGE: ">=", tAugAssign: "augmented assignment",
	kwAnd: "and", kwAs: "as", kwAssert: "assert", kwAsync: "async", kwAwait: "await", kwBreak: "break",
	kwClass: "class", kwContinue: "continue", kwDef: "def", kwDel: "del", kwElif: "elif", kwElse: "else",
	kwExcept: "except", kwFalse: "False", kwFinally: "finally", kwFor: "for", kwFrom: "from", kwGlobal: "global",
	kwIf: "if", kwImport: "import", kwIn: "in", kwIs: "is", kwLambda: "lambda", kwNone: "None",
	kwNonlocal: "nonlocal", kwNot: "not", kwOr: "or", kwPass: "pass", kwRaise: "raise", kwReturn: "return",
	kwTrue: "True", kwTry: "try", kwWhile: "while", kwWith: "with", kwYield: "yield",
}

// keyword is the token kind of an identifier: tName unless it is a keyword.
func keyword(s string) tokenKind {
	if len(s) < 2 || len(s) > 8 {
		return tName
	}
	switch s {
	case "and":
		return kwAnd
	case "as":
		return kwAs
	case "assert":
		return kwAssert
	case "async":
		return kwAsync
	case "await":
		return kwAwait
	case "break":
		return kwBreak
	case "class":
		return kwClass
	case "continue":
		return kwContinue
	case "def":
		return kwDef
	case "del":
		return kwDel
	case "elif":
		return kwElif
	case "else":
		return kwElse
	case "except":
		return kwExcept
	case "False":
		return kwFalse
	case "finally":
		return kwFinally
	case "for":
		return kwFor
	case "from":
		return kwFrom
	case "global":
		return kwGlobal
	case "if":
		return kwIf
	case "import":
		return kwImport
	case "in":
		return kwIn
	case "is":
		return kwIs
	case "lambda":
		return kwLambda
	case "None":
		return kwNone
	case "nonlocal":
		return kwNonlocal
	case "not":
		return kwNot
	case "or":
		return kwOr
	case "pass":
		return kwPass
	case "raise":
		return kwRaise
	case "return":
		return kwReturn
	case "True":
		return kwTrue
	case "try":
		return kwTry
	case "while":
		return kwWhile
	case "with":
		return kwWith
	case "yield":
		return kwYield
	}
	return tName
}

type token struct {
	kind     tokenKind
	op       Op   // operator of an augmented assignment
	lineHead bool // first token of a line, within brackets too
	pos, end int32
}

// describe is a token for a message: its text in quotes, or what it is.
func (t token) describe(text string) string {
	switch t.kind {
	case tEOF, tNewline, tIndent, tDedent:
		return tokenText[t.kind]
	}
	s := text[t.pos:t.end]
	const most = 32
	if len(s) > most {
		s = s[:most] + "..."
	}
	if t.kind == tString {
		return "string " + s
	}
	return "'" + s + "'"
}
