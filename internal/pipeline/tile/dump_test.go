package tile

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lowertrace/internal/ir/script"
)

func TestDump(t *testing.T) {
	for _, k := range strings.Fields(os.Getenv("DUMP")) {
		m, _, _, err := inferred(k)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("INFER") != "" {
			fmt.Println(script.Print(m))
			continue
		}
		m, err = lowerAll(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(script.Print(m))
	}
}
