// Command sqlite is a server on standard input and output that lets a model look around in an SQLite database: the
// tables are resources, and a tool queries them. Nothing is written. It is a module of its own, so that the driver is
// no dependency of mcpwire.
//
//	cd examples/sqlite && npx @modelcontextprotocol/inspector --cli go run . shop.db --method tools/call --tool-name query --tool-arg 'sql=select 1'
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log"
	"net/url"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: sqlite FILE")
	}
	address := url.URL{Scheme: "file", Opaque: (&url.URL{Path: os.Args[1]}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", address.String())
	if err == nil {
		err = run(context.Background(), explorer{db})
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, e explorer) error {
	if err := e.db.PingContext(ctx); err != nil {
		return err
	}
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "sqlite", Version: "1"}})
	if err != nil {
		return err
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "query", Description: new("Runs one SQL query that only reads."),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, e.query)
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "table", Description: new("The statement that makes a table."),
		URITemplate: "sqlite:///{table}", MIMEType: new("text/plain")}, e.table, server.Complete("table", e.complete))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	return s.Run(ctx, stdio.Server(stdio.Options{}))
}

type explorer struct{ db *sql.DB }

type question struct {
	SQL string `json:"sql"`
}

type answer struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	More    bool     `json:"more" jsonschema:"whether there are more rows than these"`
}

func (e explorer) query(ctx context.Context, _ *server.Call, in question) (answer, error) {
	return e.read(ctx, in.SQL)
}

func (e explorer) table(ctx context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
	found, err := e.read(ctx, "select sql from sqlite_schema where type = 'table' and name = ?", r.Vars.Get("table"))
	if err != nil || len(found.Rows) == 0 {
		return nil, cmp.Or(err, server.NotFound(r.URI))
	}
	return server.TextContents(found.Rows[0][0].(string)), nil
}

func (e explorer) complete(ctx context.Context, _ *server.Call, value string, _ map[string]string) (names []string, err error) {
	found, err := e.read(ctx, "select name from sqlite_schema where type = 'table' and substr(name, 1, length(?1)) = ?1 order by name", value)
	for _, row := range found.Rows {
		names = append(names, row[0].(string))
	}
	return names, err
}

// maxRows is how many rows an answer has at most.
const maxRows = 100

func (e explorer) read(ctx context.Context, query string, args ...any) (out answer, err error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	// Mode ro is not enough: a database that is attached, as VACUUM INTO does it, is another file.
	if _, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_ATTACHED, 0); err != nil {
		return out, err
	}
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	out.Columns, err = rows.Columns()
	for err == nil && rows.Next() {
		if out.More = len(out.Rows) == maxRows; out.More {
			break
		}
		row, to := make([]any, len(out.Columns)), make([]any, len(out.Columns))
		for i := range row {
			to[i] = &row[i]
		}
		err = rows.Scan(to...)
		out.Rows = append(out.Rows, row)
	}
	return out, errors.Join(err, rows.Err())
}
