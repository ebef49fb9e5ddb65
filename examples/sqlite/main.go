// Command sqlite is a server on standard input and output that lets a model look around in an SQLite database: the
// tables are resources, and a tool queries them. Nothing is written. It is a module of its own, so that the driver is
// no dependency of mcpwire.
//
//	cd examples/sqlite && npx @modelcontextprotocol/inspector --cli go run . shop.db --method tools/call --tool-name query --tool-arg 'sql=select 1'
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	address := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s, err := newServer(explorer{db})
	if err != nil {
		return err
	}
	return s.Run(ctx, stdio.Server(stdio.Options{}))
}

func newServer(e explorer) (*server.Server, error) {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "sqlite", Version: "1"}})
	if err != nil {
		return nil, err
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "query", Description: new("Runs one SQL query that only reads."),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, e.query)
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "table", Description: new("The statement that makes a table."),
		URITemplate: "sqlite:///{table}", MIMEType: new("text/plain")}, e.table, server.Complete("table", e.complete))
	return s, errors.Join(err, err2)
}

type explorer struct{ db *sql.DB }

// maxRows is how many rows an answer has at most.
const maxRows = 100

type question struct {
	SQL string `json:"sql"`
}

type answer struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	More    bool     `json:"more" jsonschema:"whether there are more rows than these"`
}

func (e explorer) query(ctx context.Context, _ *server.Call, in question) (answer, error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	// Mode ro is not enough: a database that is attached, as VACUUM INTO does it, is another file.
	if _, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_ATTACHED, 0); err != nil {
		return answer{}, err
	}
	rows, err := conn.QueryContext(ctx, in.SQL)
	if err != nil {
		return answer{}, err
	}
	defer rows.Close()
	out := answer{Rows: [][]any{}}
	if out.Columns, err = rows.Columns(); err != nil {
		return answer{}, err
	}
	for rows.Next() {
		if len(out.Rows) == maxRows {
			out.More = true
			break
		}
		row := make([]any, len(out.Columns))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return answer{}, err
		}
		out.Rows = append(out.Rows, row)
	}
	return out, rows.Err()
}

func (e explorer) table(ctx context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
	var text string
	err := e.db.QueryRowContext(ctx, "select sql from sqlite_schema where type = 'table' and name = ?", r.Vars.Get("table")).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, server.NotFound(r.URI)
	}
	return server.TextContents(text), err
}

func (e explorer) complete(ctx context.Context, _ *server.Call, value string, _ map[string]string) (names []string, err error) {
	rows, err := e.db.QueryContext(ctx, "select name from sqlite_schema where type = 'table' and substr(name, 1, length(?1)) = ?1 order by name", value)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
