package syntax

import (
	"fmt"
	"reflect"
	"strings"
)

// dump writes a tree as nested lists: (Binary + (Name a) (Num 1)).
func dump(n any) string {
	var b strings.Builder
	dumpValue(&b, reflect.ValueOf(n))
	return b.String()
}

func dumpValue(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			b.WriteString("-")
			return
		}
		dumpValue(b, v.Elem())
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			dumpValue(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Struct:
		b.WriteString("(" + v.Type().Name())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeFor[Loc]() {
				continue
			}
			b.WriteByte(' ')
			dumpValue(b, v.Field(i))
		}
		b.WriteByte(')')
	case reflect.String:
		if v.Len() == 0 {
			b.WriteString(`""`)
			return
		}
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprintf(b, "%v", v.Interface())
	}
}

// walk visits every node of a tree.
func walk(v reflect.Value, visit func(Node)) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(Node); ok && v.Kind() == reflect.Pointer {
			visit(n)
		}
		walk(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type != reflect.TypeFor[*int]() {
				walk(v.Field(i), visit)
			}
		}
	}
}
