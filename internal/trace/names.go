package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// maxNameBytes is the longest a pass's, phase's or script's name gets as part of a file name. With
// the number before it and the suffix behind it a file name stays below the 143 bytes that the
// strictest common file systems take.
const maxNameBytes = 96

// fileName turns any name into one safe as part of a file name everywhere: ASCII letters, digits,
// '_', '-', '+' and inner '.', at most maxNameBytes. A name that is safe already is returned as it
// is; any other gets the first hex digits of its hash, so that different names stay different.
func fileName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name) && b.Len() <= maxNameBytes; i++ {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '+':
			b.WriteByte(c)
		case c == '.' && i > 0 && i < len(name)-1:
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	safe := b.String()
	if reservedName(safe) {
		safe = "_" + safe
	}
	if safe == name && name != "" && len(name) <= maxNameBytes {
		return name
	}
	return hashedName(safe, name)
}

// hashedName cuts safe to leave room and appends the hash of key.
func hashedName(safe, key string) string {
	h := hash8(key)
	if n := maxNameBytes - len(h) - 1; len(safe) > n {
		safe = safe[:n]
	}
	safe = strings.TrimRight(safe, ".")
	if safe == "" {
		return "_-" + h
	}
	return safe + "-" + h
}

func hash8(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

var windowsDevice = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// reservedName says whether Windows would take the name for a device.
func reservedName(name string) bool { return windowsDevice.MatchString(name) }

// nameSet hands out distinct file names within one directory, also where the file system ignores
// letter case. The same name asked for again gets the same answer.
type nameSet struct {
	given map[string]string // asked name -> file name
	taken map[string]bool   // folded file names
}

func newNameSet(reserved ...string) *nameSet {
	s := &nameSet{given: map[string]string{}, taken: map[string]bool{}}
	for _, r := range reserved {
		s.taken[strings.ToLower(r)] = true
	}
	return s
}

func (s *nameSet) name(asked string) string {
	if n, ok := s.given[asked]; ok {
		return n
	}
	n := fileName(asked)
	if s.taken[strings.ToLower(n)] {
		n = hashedName(n, asked)
		for i := 2; s.taken[strings.ToLower(n)]; i++ {
			n = hashedName(fileName(asked), fmt.Sprintf("%s#%d", asked, i))
		}
	}
	s.given[asked] = n
	s.taken[strings.ToLower(n)] = true
	return n
}

// runPattern is the form of a run directory's name: stamp with microseconds, pid, id.
var runPattern = regexp.MustCompile(`^run_(\d{8}_\d{6}_\d{6})_(\d+)_([0-9a-f]+)$`)

const stampLayout = "20060102_150405"

// runName builds a run directory's name.
func runName(t time.Time, pid int, id string) string {
	return fmt.Sprintf("run_%s_%06d_%d_%s", t.Format(stampLayout), t.Nanosecond()/1000, pid, id)
}

// runStamp returns the part of a run directory's name that orders runs, and whether it is one.
func runStamp(name string) (string, bool) {
	m := runPattern.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}
