package browsertest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/throttle"
)

// audit finds what keeps people out: no name, no contrast, no order. It returns a
// complaint a line.
//
//go:embed audit.js
var audit string

// TestEverybodyCanReadThePage looks at each view, light and dark, large and small, with
// the audit above and, where npm gets it, with axe-core.
func TestEverybodyCanReadThePage(t *testing.T) {
	ctx, calm := context.WithCancel(t.Context())
	all, by := scene(ctx, t)
	url := serve(t, dashboard.Config{Governors: dashboard.Of(all...), Guard: func(*http.Request) bool { return true }, Peers: []string{"http://127.0.0.1:1/"}})
	by["slack"].Pause()
	by["googleads"].Learn(refused(throttle.Scope{}, throttle.KindBurst, time.Hour, "retry in an hour"))
	by["googleads"].Learn(refused(throttle.Scope{Level: throttle.Tenant, Key: "customer 1009"}, throttle.KindQuota, time.Hour, "of the account"))
	time.Sleep(1500 * time.Millisecond) // there are numbers on the page
	calm()
	axe, err := axeCore(t.TempDir())
	if err != nil {
		t.Log("without axe-core:", err)
	}
	looks := []struct {
		dark  bool
		width int64
	}{{false, 1280}, {true, 360}, {true, 1280}, {false, 360}}
	for _, view := range []string{"/", "/?governor=googleads", "/?governor=stripe", "/?governor=graph.facebook.com", "/?governor=gone"} {
		t.Run(view, func(t *testing.T) { // so that the tab is closed, and its connection
			p := open(t, url+view)
			p.until("document.getElementById('live').dataset.state == 'live' && !!document.querySelector('.card, .panel')")
			if axe != "" {
				eval[bool](p, axe+"; true")
			}
			for _, look := range looks {
				p.run(size(look.width, 900, 1, look.dark))
				time.Sleep(300 * time.Millisecond)
				said := func(who, what string) {
					if what != "" {
						t.Errorf("dark %v, %d wide: %s:\n%s", look.dark, look.width, who, what)
					}
				}
				said("our audit", eval[string](p, audit))
				if axe != "" {
					said("axe-core", eval[string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(v => v.id + ": " + v.help + "\n" + v.nodes.map(n => "  " + n.html.slice(0, 150) + " " + n.failureSummary.split("\n").slice(1).join(" ")).join("\n")).join("\n"))`))
				}
			}
		})
	}
}

// A page that is wrong in the ways that the audit looks for.
func TestAuditSees(t *testing.T) {
	p := open(t, "about:blank")
	for what, html := range map[string]string{
		"no name":     `<main><h1>x</h1><button></button></main>`,
		"contrast":    `<main><h1 style="color:#aaa;background:#fff">pale</h1></main>`,
		"twice":       `<main><h1>x</h1><p id=a></p><p id=a></p></main>`,
		"skips":       `<main><h1>x</h1><h3>y</h3></main>`,
		"no main":     `<h1>x</h1>`,
		"wide":        `<main><h1>x</h1><div style="width:5000px">x</div></main>`,
		"no header":   `<main><h1>x</h1><table><tr><td>1</td></tr></table></main>`,
		"not by Tab":  `<main><h1>x</h1><div style="overflow:auto;height:20px"><p style="height:200px">x</p></div></main>`,
		"no language": ``,
	} {
		lang := "en"
		if what == "no language" {
			lang, html = "", "<main><h1>x</h1></main>"
		}
		eval[bool](p, fmt.Sprintf("document.documentElement.lang = %q; document.title = 'x'; document.body.innerHTML = %q; true", lang, html))
		if found := eval[string](p, audit); !strings.Contains(found, what) {
			t.Errorf("%s is not seen: %q", what, found)
		}
	}
	eval[bool](p, `document.documentElement.lang = "en"; document.body.innerHTML = "<main><h1>x</h1><button>go</button></main>"; true`)
	if found := eval[string](p, audit); found != "" {
		t.Errorf("of a page that is well: %s", found)
	}
}

// All there is to do can be done by keys, and one sees where one is.
func TestKeyboard(t *testing.T) {
	all, _ := scene(t.Context(), t)
	p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(all...)})+"/", size(1280, 900, 1, false))
	p.until(isLive)
	press := func(key string) { p.run(chromedp.KeyEvent(key)) }
	const focus = "(document.activeElement.textContent || document.activeElement.ariaLabel).trim()"
	var path []string
	for range 5 {
		press(kb.Tab)
		path = append(path, eval[string](p, focus))
		if !eval[bool](p, "document.activeElement.matches(':focus-visible')") {
			t.Errorf("nothing shows that %q has the focus", path[len(path)-1])
		}
	}
	if got := strings.Join(path, ", "); got != "Skip to the governors, Flyball, Filter by name, All, Needs attention" {
		t.Errorf("Tab goes to %s", got)
	}
	press(kb.Tab)
	name := eval[string](p, focus)
	press(kb.Enter)
	p.until(fmt.Sprintf("document.querySelector('h1').textContent == %q && location.search.includes('governor=')", name))
	p.until("document.activeElement.id == 'main'")
	eval[bool](p, "document.querySelector('.chart canvas').focus() || true")
	for begin := time.Now(); ; time.Sleep(500 * time.Millisecond) { // until there is something on the chart
		press(kb.ArrowLeft)
		tip := p.text(".chart output")
		if strings.Contains(tip, "started") {
			break
		}
		if time.Since(begin) > soon {
			t.Fatalf("the chart says %q", tip)
		}
	}
	p.run(chromedp.NavigateBack())
	p.until("document.querySelectorAll('.card').length == 7")
}

const (
	axeVersion = "axe-core@4.14.1" // MPL-2.0; not part of Flyball
	axeHash    = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axeCore returns the script of axe-core, got by npm.
func axeCore(dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("there is no npm")
	}
	cmd := exec.Command(npm, "pack", "--silent", axeVersion)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w", axeVersion, err)
	}
	file, err := os.Open(filepath.Join(dir, strings.TrimSpace(string(out))))
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha512.New()
	packed, err := gzip.NewReader(io.TeeReader(file, sum))
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if h.Name == "package/axe.min.js" {
			if _, err := io.Copy(&script, files); err != nil {
				return "", err
			}
		}
	}
	io.Copy(sum, file) // what is behind the archive
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != axeHash {
		return "", fmt.Errorf("%s has the hash %s", axeVersion, got)
	}
	return script.String(), nil
}
