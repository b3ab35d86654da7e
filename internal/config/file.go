package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fileKey stands in the place of a key in problems with the file as a whole.
const fileKey = "file"

// fileBytesMax bounds the file. A whole configuration has some 2 KiB.
const fileBytesMax = 1 << 20

// readFile reads the YAML file into l.given.
func readFile(l *loader, path string) {
	b, err := readBounded(path)
	if err != nil {
		l.problem(&Problem{
			Key: fileKey, Value: path, Cause: "can't be read: " + err.Error(),
			Remedy: "name a YAML file with --config or CDC_RELAY_CONFIG",
		})
		return
	}
	readYAML(l, path, b)
}

// readYAML reads the text of a file; path is only for messages.
func readYAML(l *loader, path string, text []byte) {
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		l.problem(syntaxProblem(path, err))
		return
	}
	r := fileReader{loader: l, path: path}
	documents := 0
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if documents++; documents > 1 {
			r.problem(fileKey, doc.Body, "holds more than one document", "keep one")
			return
		}
		r.root(doc.Body)
	}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New(pathCause(err))
	}
	defer f.Close() // opened for reading only
	b, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, errors.New(pathCause(err))
	}
	if len(b) > fileBytesMax {
		return nil, fmt.Errorf("it has more than %d bytes", fileBytesMax)
	}
	return b, nil
}

// syntaxProblem says where the file is no YAML. The line itself isn't quoted, because a
// password may stand there.
func syntaxProblem(path string, err error) *Problem {
	p := &Problem{Key: fileKey, Value: path, Cause: "is not YAML"}
	var ye yaml.Error
	if errors.As(err, &ye) {
		if at := ye.GetToken().Position; at != nil {
			p.Origin = fmt.Sprintf("line %d, column %d", at.Line, at.Column)
		}
		p.Remedy = "look for a missing quote, a wrong indentation or a key that is written twice"
	}
	return p
}

// fileReader walks the tree of one file.
type fileReader struct {
	*loader
	path string
}

func (r *fileReader) origin(n ast.Node) string {
	return fmt.Sprintf("%s:%d", r.path, n.GetToken().Position.Line)
}

func (r *fileReader) problem(key string, at ast.Node, cause, remedy string) {
	r.loader.problem(&Problem{Key: key, Origin: r.origin(at), Cause: cause, Remedy: remedy})
}

func (r *fileReader) root(n ast.Node) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		r.problem(fileKey, n, "is not a mapping of keys to values", "write it like publication: outbox")
		return
	}
	r.section("", m)
}

// section walks a mapping; at is its path with a dot, or empty at the top.
func (r *fileReader) section(at string, m *ast.MappingNode) {
	for _, kv := range m.Values {
		name, ok := kv.Key.(*ast.StringNode)
		if !ok {
			r.problem(at+kv.Key.String(), kv.Key, "is not a plain key", "write keys as plain words, without anchors or merges")
			continue
		}
		path := at + name.Value
		k, isKey := keyAt(path)
		switch {
		case strings.Contains(name.Value, "."):
			r.problem(path, kv.Key, "is no plain key", "write sections below each other, or as topic: {name: orders}")
		case isKey:
			r.key(k, kv)
		case isSection(path):
			switch v := kv.Value.(type) {
			case *ast.MappingNode:
				r.section(path+".", v)
			case *ast.NullNode:
			default:
				r.problem(path, kv.Key, "is a section, not a value", "write its keys below it: "+strings.Join(below(path), ", "))
			}
		default:
			r.problem(path, kv.Key, "is no key of the configuration", "did you mean "+nearest(path, paths())+"?")
		}
	}
}

// key takes the value of a known key. null is the same as leaving it out.
func (r *fileReader) key(k *key, kv *ast.MappingValueNode) {
	g := given{origin: r.origin(kv.Key)}
	switch v := kv.Value.(type) {
	case *ast.NullNode:
		return
	case *ast.MappingNode:
		if !k.section {
			r.problem(k.path, kv.Key, "takes a value, not a section", "")
			return
		}
		if len(v.Values) == 0 {
			return
		}
	case *ast.SequenceNode:
		g.isList = true
		for _, item := range v.Values {
			text, ok := scalar(item)
			if !ok {
				r.problem(k.path, item, "holds something else than plain values", "write it like [a, b]")
				return
			}
			g.list = append(g.list, text)
		}
	default:
		text, ok := scalar(kv.Value)
		if !ok {
			r.problem(k.path, kv.Key, "is not a plain value", "write the value itself, without anchors, aliases or tags")
			return
		}
		g.text = text
	}
	r.given[k.path] = g
}

// scalar is a value's text as it is written, so that 1.10 stays 1.10 and quotes are resolved.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// paths lists every key and every section.
func paths() []string {
	var out []string
	for i := range table {
		path := table[i].path
		for at, c := range path {
			if c == '.' && !slices.Contains(out, path[:at]) {
				out = append(out, path[:at])
			}
		}
		out = append(out, path)
	}
	return out
}

func isSection(path string) bool { return len(below(path)) > 0 }

// below lists the names right below a section.
func below(path string) []string {
	var out []string
	for i := range table {
		rest, ok := strings.CutPrefix(table[i].path, path+".")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
	}
	return out
}
