package vendors_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Headers are looked up by the names as they are written here.
func TestNamesOfHeadersAreCanonical(t *testing.T) {
	notTest := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		name, _ := strconv.Unquote(lit.Value)
		if checked++; name != "" && name != http.CanonicalHeaderKey(name) {
			t.Errorf("%q is no canonical name of a header", name)
		}
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !notTest(info) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if fn, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 1 && (fn.Name == "value" || fn.Name == "values") {
					check(n.Args[1])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && strings.Contains(" limit remaining after reset policy ", " "+key.Name+" ") {
					check(n.Value)
				}
			}
			return true
		})
	}
	if checked < 50 {
		t.Errorf("only %d names were found", checked)
	}
}
