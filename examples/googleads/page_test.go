package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/dashboard"
)

// While the job runs the page tells of it, of the naive mode too, which has no governor.
func TestDashboardDuringTheJob(t *testing.T) {
	told := make(chan string, 100)
	code := make(chan int, 1)
	go func() {
		args := append(slow[:10:10], "-accounts", "200", "-naive-limit", "2s", "-progress", "none", "-dashboard", "127.0.0.1:0")
		code <- run(t.Context(), args, noEnv, io.Discard, lines(told))
		close(told)
	}()
	_, address, _ := strings.Cut(strings.TrimSpace(<-told), "dashboard on ")
	seen := map[string]dashboard.Summary{}
	for res, err := http.Get(address + "state.json"); err == nil; res, err = http.Get(address + "state.json") {
		var o dashboard.Overview
		if res.StatusCode == http.StatusOK { // else it is about to end
			err = json.NewDecoder(res.Body).Decode(&o)
		}
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range o.Governors {
			seen[g.Name] = g
		}
		time.Sleep(50 * time.Millisecond)
	}
	if c := <-code; c != exitOK {
		t.Errorf("exit %d", c)
	}
	for _, m := range allModes {
		if g := seen["googleads, "+string(m)]; g.Started == 0 || g.Observe != (m == naive) {
			t.Errorf("%s: %+v", m, g)
		}
	}
	if g := seen["googleads, naive"]; g.Limited == 0 || g.Cooling == 0 {
		t.Errorf("the naive mode was not refused: %+v", g)
	}
	if _, err := http.Get(address); err == nil {
		t.Error("the page is still there")
	}
}

// lines sends what is written to it.
type lines chan<- string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestDashboardIsForThisMachine(t *testing.T) {
	for _, address := range []string{":8080", "0.0.0.0:8080", "10.0.0.1:80", "example.com:80", "8080"} {
		var said strings.Builder
		if code := run(t.Context(), []string{"-dashboard", address}, noEnv, io.Discard, &said); code != exitUsage || !strings.Contains(said.String(), "-dashboard "+address) {
			t.Errorf("%s: exit %d, %s", address, code, fmt.Sprint(&said))
		}
	}
}
