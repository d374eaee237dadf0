package httpx

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// It is in the last file, and so runs after all other tests; examples come later, and
// close nothing, as programs that end.
func TestNothingIsLeftBehind(t *testing.T) {
	if left := leftovers(); left != "" {
		t.Error("left behind:\n" + left)
	}
}

// leftovers are goroutines of ours, and of connections that nobody closed.
func leftovers() (left string) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		left = ""
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "flyball/governor") || strings.Contains(g, "net/http.(*persistConn)") || strings.Contains(g, "flyball/httpx.(") {
				left += g + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}
