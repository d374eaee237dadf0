// Package promtest runs a real Prometheus for tests.
package promtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Server is a Prometheus that scrapes five times a second.
type Server struct{ url string }

// patience bounds every wait for Prometheus.
const patience = 30 * time.Second

// Start starts one that scrapes target, host:port, and evaluates the rules each
// second. It ends with the test.
func Start(t *testing.T, target, rules string) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Prometheus; skipped by -short")
	}
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("there is no Prometheus: apt-get install prometheus, or see -short:", err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("flyball.rules.yml", rules)
	write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s}
rule_files: [flyball.rules.yml]
scrape_configs: [{job_name: flyball, static_configs: [{targets: ['%s']}]}]
`, target))
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--log.format=logfmt")
	dieWithUs(cmd)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1) // the address
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		defer close(said)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if _, addr, ok := strings.Cut(lines.Text(), `msg="Listening on" address=`); ok {
				said <- addr
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // of its data nothing is kept
		<-read
		cmd.Wait() // its error is that it was killed
	})
	select {
	case addr, ok := <-said:
		if !ok {
			t.Fatal("Prometheus ended")
		}
		s := &Server{"http://" + strings.TrimSpace(addr)}
		s.Eventually(t, "Prometheus scrapes", func() bool {
			v, _ := s.Query(t, "up")
			return len(v) == 1 && v[0].Value == 1
		})
		return s
	case <-time.After(patience):
		t.Fatal("Prometheus says no address")
	}
	return nil
}

// Eventually waits until what is so.
func (s *Server) Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// Sample is a value that a query gave.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a query at present.
func (s *Server) Query(t *testing.T, query string) ([]Sample, error) {
	t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := s.get("query?query="+url.QueryEscape(query), &data); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	var all []Sample
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Sample{r.Metric, v})
	}
	return all, nil
}

// Values are those of a label of a metric.
func (s *Server) Values(label, metric string) (all []string, err error) {
	err = s.get("label/"+label+"/values?match[]="+url.QueryEscape(metric), &all)
	return all, err
}

// Alert is one that fires, or is about to.
type Alert struct {
	State               string // "firing" or "pending"
	Labels, Annotations map[string]string
}

// Alerts returns those that there are.
func (s *Server) Alerts() ([]Alert, error) {
	var data struct{ Alerts []Alert }
	err := s.get("alerts", &data)
	return data.Alerts, err
}

func (s *Server) get(path string, data any) error {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Get(s.url + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var a struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil {
		return err
	}
	if a.Status != "success" {
		return fmt.Errorf("%s: %s", a.Status, a.Error)
	}
	return json.Unmarshal(a.Data, data)
}
