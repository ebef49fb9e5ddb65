package main

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// createDatabase creates a database and returns its file name.
func createDatabase(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "the shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"create table goods (name text, price real, stock integer)",
		"create table people (name text)",
		"insert into goods values ('nuts', 1.5, 9007199254740993), ('bolts', null, 0)",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// columns returns the definitions of n columns: c0, c1 and so on.
func columns(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("c", i))
	}
	return strings.Join(names, ", ")
}

// Proves SDK-22.
func TestExplorer(t *testing.T) {
	ctx := t.Context()
	binary := filepath.Join(t.TempDir(), "server")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file := createDatabase(t)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("create table wide (" + columns(100) + "); insert into wide (c99) values (7)"); err != nil {
		t.Fatal(err)
	}
	c, err := client.Command(ctx, stdio.Command{Path: binary, Args: []string{file}, Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		name, sql string
		want      string // "" for an error
	}{
		{"rows with every kind of value", "select * from goods;", `{"rows":[{"name":"nuts","price":1.5,"stock":9007199254740993},{"name":"bolts","price":null,"stock":0}],"rowCount":2,"more":false}`},
		{"no rows", "select name from people", `{"rows":[],"rowCount":0,"more":false}`},
		{"VALUES", "VALUES(1)", `{"rows":[{"column1":1}],"rowCount":1,"more":false}`},
		{"a statement that writes", "insert into people values ('Ada')", ""},
		{"a query that ends with a write", "with x as (select 'Ada') insert into people select * from x", ""},
		{"a statement that lets others write", "pragma query_only = 0; delete from goods", ""},
		{"a setting after a query", "select 1; pragma query_only = 0", ""},
		{"a transaction", "begin", ""},
		{"an exclusive lock", "begin exclusive", ""},
		{"a setting of the connection", "pragma locking_mode=exclusive", ""},
		{"a table that hides another one", "create temp table goods as select 99 as id", ""},
		{"a copy to another file", "vacuum into 'copy.db'", ""},
		{"another file", "attach 'other.db' as other", ""},
		{"a statement after a comment", "-- select\nbegin", ""},
		{"a large value", "select zeroblob(100000000) as x", ""},
		{"many large values", "with recursive n(i) as (select 1 union all select i+1 from n) select zeroblob(100000) as x from n", ""},
		{"a row of many large values", "select " + strings.Repeat("zeroblob(200000), ", 300) + "1", ""},
		{"columns with equal names", "select 1 as a, 2 as a", ""},
		{"some columns of a wide table", "select c99 from wide", `{"rows":[{"c99":7}],"rowCount":1,"more":false}`},
		{"all columns of a wide table", "select * from wide", ""},
		{"not SQL", "please", ""},
		{"nothing was written", "select count(*) as n from goods", `{"rows":[{"n":2}],"rowCount":1,"more":false}`},
	} {
		result, err := c.CallTool(ctx, "query", queryInput{tt.sql})
		if err != nil {
			t.Fatal(err)
		}
		if result.Failed() != (tt.want == "") {
			t.Errorf("%s: isError is %v", tt.name, result.Failed())
		}
		if tt.want != "" {
			if diff := cmp.Diff(tt.want, string(result.StructuredContent)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		}
		if _, err := db.Exec("update goods set stock = stock"); err != nil {
			t.Errorf("%s: the query left the database locked: %v", tt.name, err)
		}
	}
	result, err := c.CallTool(ctx, "query", queryInput{"with recursive n(i) as (select 1 union all select i+1 from n) select i from n"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := client.Output[answer](result); err != nil || len(out.Rows) != maxRows || out.RowCount != maxRows || !out.More {
		t.Errorf("endless query: %d rows, more is %v (%v)", len(out.Rows), out.More, err)
	}
}

func TestTablesAreResources(t *testing.T) {
	ctx := t.Context()
	binary := filepath.Join(t.TempDir(), "server")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := client.Command(ctx, stdio.Command{Path: binary, Args: []string{createDatabase(t)}, Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	completion, err := c.Complete(ctx, &mcp.ResourceTemplateReference{URI: "sqlite:///{table}"}, "table", "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"people"}, completion.Values); diff != "" {
		t.Errorf("completions for p (-want +got):\n%s", diff)
	}
	schema, err := c.ReadResource(ctx, "schema://main")
	if err != nil {
		t.Fatal(err)
	}
	if got := schema.Contents[0].(*mcp.TextResourceContents).Text; got != "CREATE TABLE goods (name text, price real, stock integer)\nCREATE TABLE people (name text)" {
		t.Errorf("schema: %q", got)
	}
	contents, err := c.ReadResource(ctx, "sqlite:///people")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents.Contents[0].(*mcp.TextResourceContents).Text; got != "CREATE TABLE people (name text)" {
		t.Errorf("table: %q", got)
	}
	if _, err := c.ReadResource(ctx, "sqlite:///nothing"); err == nil {
		t.Error("read a table that does not exist")
	}
}
