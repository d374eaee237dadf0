package flyball_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house has floors: a package imports only lower ones, and none on its own.
// So there are no cycles to untangle and no package that knows its users. A
// package xtest, with doubles for users of x, sits one floor above x. All of
// internal is on floor 0.
var floors = map[string]int{
	"backoff":  0,
	"event":    0,
	"throttle": 0,

	"policy": 1,

	"breaker": 2,
	"chaos":   2,
	"limiter": 2,
	"pool":    2,
	"retry":   2,

	"store": 3,

	"governor": 4,

	"governor/internal/heap":  0,
	"governor/internal/fair":  1,
	"governor/internal/sched": 2,

	"dashboard": 5,
	"vendors":   5,

	"registry": 5,

	"httpx": 6,

	"vendors/vendortest": 6,
}

// standardOnly are the packages that need nothing but the standard library: the
// root, which is documentation, and the stand-ins for vendors, which are of use
// to any client.
var standardOnly = []string{"", "vendors/vendortest"}

// The modules that users of the root module get with it, and those that its
// tests may use beside them.
var (
	dependencies     = []string{"github.com/jackc/puddle/v2", "golang.org/x/sync"}
	testDependencies = []string{"github.com/stretchr/testify"}
)

const module = "github.com/flyball-go/flyball"

// listed is what go list says about a package.
type listed struct {
	ImportPath   string
	Standard     bool
	DepOnly      bool // something that ./... needs, not part of it
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

func TestImportFloors(t *testing.T) {
	watchSources(t)
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(goCommand(t, "list", "-deps", "-json", "./..."))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	for _, v := range violations(pkgs) {
		t.Error(v)
	}
}

func TestRootModuleRequiresLittle(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect && !slices.Contains(dependencies, r.Path) && !slices.Contains(testDependencies, r.Path) {
			t.Errorf("go.mod requires %s: what needs it belongs in a nested module", r.Path)
		}
	}
}

func TestViolationsAreSeen(t *testing.T) {
	puddle := &struct{ Path string }{dependencies[0]}
	grpc := &struct{ Path string }{"google.golang.org/grpc"}
	testify := &struct{ Path string }{testDependencies[0]}
	for _, c := range []struct {
		name string
		pkgs []listed
		want string // part of the only violation; "" means that there is none
	}{
		{"lower floor", []listed{ours("governor", "retry", "backoff", "time")}, ""},
		{"higher floor", []listed{ours("retry", "governor")}, "retry (floor 2) imports governor (floor 4)"},
		{"own floor", []listed{ours("retry", "pool")}, "retry (floor 2) imports pool (floor 2)"},
		{"internal", []listed{ours("internal/wire"), ours("backoff", "internal/wire")}, "backoff (floor 0) imports internal/wire (floor 0)"},
		{"test package", []listed{ours("governor/governortest", "governor")}, ""},
		{"upwards into a test package", []listed{ours("governor", "governor/governortest")}, "governor (floor 4) imports governor/governortest (floor 5)"},
		{"unknown", []listed{ours("chores")}, "chores is on no floor"},
		{"unknown import", []listed{ours("governor", "chores")}, "governor imports chores, which is on no floor"},
		{"root", []listed{ours("", "backoff")}, "imports backoff"},
		{"vendortest", []listed{ours("vendors/vendortest", "throttle")}, "imports throttle"},
		{"vendortest and a dependency", []listed{ours("vendors/vendortest", dependencies[0])}, "imports " + dependencies[0]},
		{"vendortest and the standard library", []listed{ours("vendors/vendortest", "net/http")}, ""},
		{"dependency", []listed{{ImportPath: dependencies[0], DepOnly: true, Module: puddle}}, ""},
		{"other dependency", []listed{{ImportPath: grpc.Path + "/codes", DepOnly: true, Module: grpc}}, grpc.Path + "/codes"},
		{"testify outside tests", []listed{{ImportPath: testify.Path, DepOnly: true, Module: testify}}, testify.Path},
		{"testify in tests", []listed{{ImportPath: module + "/pool", TestImports: []string{testify.Path + "/assert"}}}, ""},
		{"other in tests", []listed{{ImportPath: module + "/pool", XTestImports: []string{grpc.Path}}}, "tests of pool import " + grpc.Path},
		{"tests look up", []listed{{ImportPath: module + "/pool", XTestImports: []string{module + "/governor"}}}, ""},
	} {
		switch got := violations(c.pkgs); {
		case c.want == "" && len(got) != 0:
			t.Errorf("%s: got %q, want none", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s: got %q, want one with %q", c.name, got, c.want)
		}
	}
}

// ours is a package of this module that imports the named ones: ours by their
// folder when it is known or "chores", others by their path.
func ours(name string, imports ...string) listed {
	p := listed{ImportPath: path.Join(module, name)}
	for _, i := range imports {
		if _, known := floor(i); known || i == "chores" {
			i = path.Join(module, i)
		}
		p.Imports = append(p.Imports, i)
	}
	return p
}

// violations names everything in pkgs that breaks a rule of the house.
func violations(pkgs []listed) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, p := range pkgs {
		name, own := folder(p.ImportPath)
		if !own {
			if !p.Standard && (p.Module == nil || !slices.Contains(dependencies, p.Module.Path)) {
				report("%s comes with the root module: what needs it belongs in a nested module", p.ImportPath)
			}
			continue
		}
		if slices.Contains(standardOnly, name) {
			for _, i := range p.Imports {
				if dir, own := folder(i); own || strings.Contains(i, ".") {
					if own {
						i = dir
					}
					report("%q imports %s: it needs nothing but the standard library", p.ImportPath, i)
				}
			}
		} else if high, known := floor(name); !known {
			report("%s is on no floor: add it to the table in floors_test.go", name)
		} else {
			for _, i := range p.Imports {
				dir, own := folder(i)
				if !own {
					continue
				}
				if low, known := floor(dir); !known {
					report("%s imports %s, which is on no floor", name, dir)
				} else if low >= high {
					report("%s (floor %d) imports %s (floor %d)", name, high, dir, low)
				}
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if _, own := folder(i); !own && strings.Contains(i, ".") && !within(i, dependencies) && !within(i, testDependencies) {
				report("tests of %s import %s", name, i)
			}
		}
	}
	return broken
}

// folder is where in this module a package is.
func folder(importPath string) (dir string, own bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func floor(name string) (n int, known bool) {
	if strings.HasPrefix(name, "internal/") {
		return 0, true
	}
	if n, known := floors[name]; known {
		return n, true
	}
	if under := path.Dir(name); path.Base(name) == path.Base(under)+"test" {
		n, known := floors[under]
		return n + 1, known
	}
	return 0, false
}

func within(importPath string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return importPath == m || strings.HasPrefix(importPath, m+"/")
	})
}

// goCommand runs go in the root of this module as its users see it, outside the
// workspace.
func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &complaint)
	}
	return out
}

// watchSources looks at every folder, so that go test, which remembers what a
// test has looked at but not what a command that it ran has, runs this one again
// when a source file changes.
func watchSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
