package main

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// leavesProcess says whether a test leaves its process, that is, starts servers or binaries, itself
// or by a helper of its package. Such a test can also turn red because the machine is busy. Names
// are followed without their types, which says yes too often rather than too seldom. Only the
// test counts, not its package: most tests of a package that has servers use none.
func leavesProcess(dir, test string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	u := uses{names: map[string][]string{}, outside: map[string]bool{}}
	for _, file := range files {
		f, err := goparser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return false, err
		}
		u.file(f)
	}
	top, _, _ := strings.Cut(test, "/")
	return u.reach(top, map[string]bool{}), nil
}

// uses is what the declarations of a package's tests use, by their names.
type uses struct {
	names   map[string][]string
	outside map[string]bool // starts something itself
}

// source is a file, and its imports by name: whether they start something.
type source struct {
	file     *ast.File
	imported map[string]bool
}

// local says whether a name is that of a variable inside a function, or of a parameter.
func (s source) local(n *ast.Ident) bool {
	return n.Obj != nil && s.file.Scope.Lookup(n.Name) != n.Obj
}

// starts says whether a package is there to start servers and binaries.
func starts(imported string) bool {
	return imported == "os/exec" || strings.Contains(imported+"/", "/internal/devenv/") || strings.HasSuffix(imported, "/test/lab")
}

func (u uses) file(f *ast.File) {
	src := source{file: f, imported: map[string]bool{}}
	for _, spec := range f.Imports {
		whole, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(whole)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		src.imported[name] = starts(whole)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = "." + name
				// A value can be used through an interface, by another package.
				ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
					if of, ok := n.(*ast.Ident); ok {
						u.names[of.Name] = append(u.names[of.Name], name)
					}
					return true
				})
			}
			u.body(name, d.Type, src)
			if d.Body != nil {
				u.body(name, d.Body, src)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						u.body(name.Name, spec, src)
					}
				case *ast.TypeSpec:
					u.body(spec.Name.Name, spec.Type, src)
				}
			}
		}
	}
}

// body notes what a declaration uses. A method has a dot before its name.
func (u uses) body(name string, d ast.Node, src source) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if outside, ok := src.imported[x.Name]; ok {
					// The broker that is embedded is in the test's process.
					u.outside[name] = u.outside[name] || outside && n.Sel.Name != "Embedded"
					return false
				}
			}
			u.names[name] = append(u.names[name], "."+n.Sel.Name)
			u.body(name, n.X, src)
			return false
		case *ast.Ident:
			if !src.local(n) {
				u.names[name] = append(u.names[name], n.Name)
			}
		}
		return true
	})
}

func (u uses) reach(name string, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	return u.outside[name] || slices.ContainsFunc(u.names[name], func(used string) bool { return u.reach(used, seen) })
}
