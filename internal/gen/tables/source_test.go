package tables_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

// table compiles docs and evaluates the printed Go source, so that tests check the source.
func table(t testing.TB, docs ...*load.Document) *jsonschema.Table {
	t.Helper()
	tables, err := tables.Compile(docs)
	if err != nil {
		t.Fatal(err)
	}
	return evaluate(t, tables.Source("table"))
}

func evaluate(t testing.TB, source string) *jsonschema.Table {
	t.Helper()
	source = "package p\n\n" + source
	if clean, err := format.Source([]byte(source)); err != nil {
		t.Fatal(err)
	} else if string(clean) != source {
		t.Fatal("the source is not gofmt-clean")
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	decl := file.Decls[0].(*ast.GenDecl).Specs[0].(*ast.ValueSpec)
	var table jsonschema.Table
	set(reflect.ValueOf(&table).Elem(), decl.Values[0])
	return &table
}

// constants are the names that may occur in the source of a table.
var constants = map[string]any{
	"Null": jsonschema.Null, "Bool": jsonschema.Bool, "Integer": jsonschema.Integer, "Fraction": jsonschema.Fraction, "Number": jsonschema.Number,
	"String": jsonschema.String, "Array": jsonschema.Array, "Object": jsonschema.Object, "Never": jsonschema.Never,
	"Minimum": jsonschema.Minimum, "Maximum": jsonschema.Maximum,
	"ExclusiveMinimum": jsonschema.ExclusiveMinimum, "ExclusiveMaximum": jsonschema.ExclusiveMaximum,
	"MinLength": jsonschema.MinLength, "MaxLength": jsonschema.MaxLength, "MinItems": jsonschema.MinItems, "MaxItems": jsonschema.MaxItems,
	"MinProperties": jsonschema.MinProperties, "MaxProperties": jsonschema.MaxProperties, "MultipleOf": jsonschema.MultipleOf,
	"MinContains": jsonschema.MinContains, "MaxContains": jsonschema.MaxContains,
}

// set sets v to the value of an expression. It supports the kinds of expressions that occur in
// tables.
func set(v reflect.Value, expr ast.Expr) {
	switch expr := expr.(type) {
	case *ast.CompositeLit:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(expr.Elts), len(expr.Elts)))
			for i, e := range expr.Elts {
				set(v.Index(i), e)
			}
			return
		}
		for _, e := range expr.Elts {
			kv := e.(*ast.KeyValueExpr)
			set(v.FieldByName(kv.Key.(*ast.Ident).Name), kv.Value)
		}
	case *ast.BasicLit:
		if expr.Kind == token.STRING {
			s, err := strconv.Unquote(expr.Value)
			if err != nil {
				panic(err)
			}
			v.SetString(s)
			return
		}
		n, err := strconv.ParseInt(expr.Value, 10, 32)
		if err != nil {
			panic(err)
		}
		v.SetInt(n)
	case *ast.UnaryExpr: // -1 and &T{}
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			set(v.Elem(), expr.X)
			return
		}
		set(v, expr.X)
		v.SetInt(-v.Int())
	case *ast.BinaryExpr: // a | b
		other := reflect.New(v.Type()).Elem()
		set(v, expr.X)
		set(other, expr.Y)
		v.SetUint(v.Uint() | other.Uint())
	case *ast.SelectorExpr:
		v.Set(reflect.ValueOf(constants[expr.Sel.Name]))
	case *ast.Ident:
		v.SetBool(expr.Name == "true")
	default:
		panic(fmt.Sprintf("a table has no %T", expr))
	}
}

// parse loads a schema with the given definitions.
func parse(t testing.TB, revision, defs string) *load.Document {
	t.Helper()
	doc, err := load.Parse(revision, revision+".json", []byte(`{"$defs":{`+defs+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// nodes returns the lines of the source that hold nodes, without indent.
func nodes(source string) string {
	_, rest, _ := strings.Cut(source, "Nodes: []jsonschema.Node{\n")
	rest, _, _ = strings.Cut(rest, "\t},\n}")
	return strings.ReplaceAll(rest, "\t\t", "")
}
