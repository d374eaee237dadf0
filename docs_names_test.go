package flyball_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// names are the packages that a user can import, by their name, and in each what
// it exports.
type names map[string]map[string]*name

// name is an exported name, with its doc comment in one line, and, of a type, its
// fields, methods, and the types that it embeds.
type name struct {
	doc     string
	fields  []string // in their order
	members map[string]*name
	embeds  []string
}

// find returns what the path, package.Name or package.Type.Member, stands for; nil
// if nothing.
func (all names) find(path string) *name {
	parts := strings.Split(path, ".")
	if len(parts) < 2 {
		return nil
	}
	n := all[parts[0]][parts[1]]
	for _, p := range parts[2:] {
		if n = all.member(parts[0], n, p); n == nil {
			return nil
		}
	}
	return n
}

// member finds a field or a method of n, or of what n embeds.
func (all names) member(pkg string, n *name, member string) *name {
	if n == nil {
		return nil
	}
	if m := n.members[member]; m != nil {
		return m
	}
	for _, e := range n.embeds {
		if m := all.member(pkg, all[pkg][e], member); m != nil {
			return m
		}
	}
	return nil
}

// parseNames reads every package of this repository that can be imported.
func parseNames(t *testing.T) names {
	t.Helper()
	all, files := names{}, token.NewFileSet()
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch base := d.Name(); {
		case d.IsDir() && dir != "." && (strings.HasPrefix(base, ".") || base == "internal" || base == "testdata" || base == "examples" || base == "bench"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, dir, nil, parser.ParseComments)
		if err == nil {
			all.add(f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (all names) add(f *ast.File) {
	pkg := all[f.Name.Name]
	if pkg == nil {
		pkg = map[string]*name{}
		all[f.Name.Name] = pkg
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				pkg[d.Name.Name] = &name{doc: line(d.Doc)}
			} else {
				typ(pkg, base(d.Recv.List[0].Type)).members[d.Name.Name] = &name{doc: line(d.Doc)}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				addSpec(pkg, d, s)
			}
		}
	}
}

func addSpec(pkg map[string]*name, d *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			pkg[n.Name] = &name{doc: line(s.Doc, s.Comment, d.Doc)}
		}
	case *ast.TypeSpec:
		n := typ(pkg, s.Name.Name)
		n.doc = line(s.Doc, d.Doc)
		var fields *ast.FieldList
		switch x := s.Type.(type) {
		case *ast.StructType:
			fields = x.Fields
		case *ast.InterfaceType:
			fields = x.Methods
		default:
			return
		}
		for _, f := range fields.List {
			if len(f.Names) == 0 {
				n.embeds = append(n.embeds, base(f.Type))
			}
			for _, id := range f.Names {
				n.members[id.Name] = &name{doc: line(f.Doc, f.Comment)}
				n.fields = append(n.fields, id.Name)
			}
		}
	}
}

func typ(pkg map[string]*name, id string) *name {
	if pkg[id] == nil {
		pkg[id] = &name{}
	}
	if pkg[id].members == nil {
		pkg[id].members = map[string]*name{}
	}
	return pkg[id]
}

// base is the name of a type without its pointer, its package and its parameters.
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return base(e.X)
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.IndexListExpr:
		return base(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func line(docs ...*ast.CommentGroup) string {
	var all []string
	for _, d := range docs {
		all = append(all, d.Text())
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// exampleBody returns the body of an example, as dir.ExampleName names it.
func exampleBody(t *testing.T, id string) (string, error) {
	t.Helper()
	dir, fn, _ := strings.Cut(id, ".")
	tests, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range tests {
		src, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !bytes.Contains(src, []byte("func "+fn+"()")) {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, file, src, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == fn {
				return unindented(string(src[files.Position(d.Body.Lbrace).Offset+1 : files.Position(d.Body.Rbrace).Offset])), nil
			}
		}
	}
	return "", fmt.Errorf("no example %s", id)
}

// unindented is the text between the braces of a function.
func unindented(body string) string {
	return strings.ReplaceAll("\n"+strings.Trim(body, "\n")+"\n", "\n\t", "\n")[1:]
}
