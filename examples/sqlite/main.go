// Command sqlite is the SQLite explorer of the TypeScript SDK's documentation, on standard input
// and output. The schema and the tables of a database are resources, and a tool queries the
// database. A query is one SELECT on a separate read-only connection. It can neither write to the
// database nor lock it, and does not affect later queries.
//
// The example is a separate module, so that mcpwire does not depend on the driver.
//
//	cd examples/sqlite && npx @modelcontextprotocol/inspector --cli go run . shop.db --method tools/call --tool-name query --tool-arg 'sql=select 1'
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: sqlite FILE")
	}
	address := url.URL{Scheme: "file", Opaque: (&url.URL{Path: os.Args[1]}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", address.String())
	if err == nil {
		db.SetMaxIdleConns(-1) // each query gets a new connection, without the state of others
		err = db.Ping()
	}
	if err == nil {
		err = newServer(explorer{db}).ServeStdio(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func newServer(e explorer) *server.Server {
	s := server.New("sqlite-explorer", "1.0.0", nil)
	server.AddTool(s, "query", "Executes one read-only SQL query on the database.", e.query, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("SQL Query")
		t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: new(true)}
	}))
	server.AddResource(s, "schema://main", "schema", e.schema, server.DefineResource(func(r *mcp.Resource) {
		r.Title = new("Database Schema")
		r.Description = new("The schema of the database.")
		r.MIMEType = new("text/plain")
	}))
	server.AddTemplate(s, "sqlite:///{table}", "table", e.table, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.Description = new("The statement that creates a table.")
		t.MIMEType = new("text/plain")
	}), server.Complete("table", e.complete))
	return s
}

// explorer reads a database.
type explorer struct{ db *sql.DB }

type queryInput struct {
	SQL string `json:"sql"`
}

type answer struct {
	Rows     []map[string]any `json:"rows" jsonschema:"the values of each row, by the names of the columns"`
	RowCount int              `json:"rowCount"`
	More     bool             `json:"more" jsonschema:"whether there are more rows than these"`
}

func (e explorer) query(ctx context.Context, _ *server.Call, in queryInput) (answer, error) {
	if err := check(in.SQL); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the query took longer than %v", timeout))
	defer cancel()
	found, err := e.read(ctx, in.SQL)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return answer{}, err
	}
	for i, name := range found.columns {
		if slices.Contains(found.columns[:i], name) {
			return answer{}, fmt.Errorf("two columns have the name %q; rename one with AS", name)
		}
	}
	out := answer{RowCount: len(found.rows), More: found.more}
	for _, row := range found.rows {
		values := make(map[string]any, len(row))
		for i, name := range found.columns {
			values[name] = row[i]
		}
		out.Rows = append(out.Rows, values)
	}
	return out, nil
}

// check returns an error unless query is a single statement that begins with SELECT, WITH or
// VALUES. Other statements, such as BEGIN and PRAGMA, can change the connection or lock the
// database even if it is read-only.
func check(query string) error {
	query = strings.TrimRight(query, "; \t\r\n")
	if strings.ContainsAny(query, ";\x00") {
		return errors.New("want one statement without semicolons; write char(59) for a semicolon in a text")
	}
	word := strings.ToLower(strings.TrimLeft(query, " \t\r\n"))
	if i := strings.IndexFunc(word, func(c rune) bool { return c < 'a' || c > 'z' }); i >= 0 {
		word = word[:i]
	}
	switch word {
	case "select", "with", "values":
		return nil
	}
	return errors.New("want a query that begins with SELECT, WITH or VALUES")
}

func (e explorer) schema(ctx context.Context, _ *server.Call, _ server.Resource) (string, error) {
	found, err := e.read(ctx, "select sql from sqlite_schema where type = 'table' order by name")
	if err != nil {
		return "", err
	}
	var statements []string
	for _, row := range found.rows {
		if text, ok := row[0].(string); ok { // internal tables of SQLite have no statement
			statements = append(statements, text)
		}
	}
	return strings.Join(statements, "\n"), nil
}

func (e explorer) table(ctx context.Context, _ *server.Call, r server.Resource) (string, error) {
	found, err := e.read(ctx, "select sql from sqlite_schema where type = 'table' and name = ?", r.Vars.Get("table"))
	if err != nil || len(found.rows) == 0 {
		return "", cmp.Or(err, server.NotFound(r.URI))
	}
	return found.rows[0][0].(string), nil
}

func (e explorer) complete(ctx context.Context, _ *server.Call, value string, _ map[string]string) (names []string, err error) {
	found, err := e.read(ctx, "select name from sqlite_schema where type = 'table' and substr(name, 1, length(?1)) = ?1 order by name", value)
	for _, row := range found.rows {
		names = append(names, row[0].(string))
	}
	return names, err
}

// The limits of a query.
const (
	maxRows    = 100
	maxBytes   = 1 << 20 // of all values together
	maxValue   = maxBytes / 4
	maxColumns = 64 // with maxValue, limits the memory of a row that is refused for its size: 16 MiB
	timeout    = 10 * time.Second
)

// table is the result of a query. more is set if there were more than maxRows rows.
type table struct {
	columns []string
	rows    [][]any
	more    bool
}

func (e explorer) read(ctx context.Context, query string, args ...any) (out table, err error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	// SQLite refuses a schema that has tables with more columns than the limit. So it reads the schema
	// before the limits are set.
	if _, err := conn.ExecContext(ctx, "select count(*) from sqlite_schema"); err != nil {
		return out, err
	}
	for limit, value := range map[int]int{
		sqlite3.SQLITE_LIMIT_ATTACHED: 0, // read-only mode does not apply to attached databases, which are other files
		sqlite3.SQLITE_LIMIT_LENGTH:   maxValue,
		sqlite3.SQLITE_LIMIT_COLUMN:   maxColumns,
	} {
		if _, err := sqlite.Limit(conn, limit, value); err != nil {
			return out, err
		}
	}
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	out.columns, err = rows.Columns()
	size := 0
	for err == nil && rows.Next() {
		if out.more = len(out.rows) == maxRows; out.more {
			break
		}
		row, to := make([]any, len(out.columns)), make([]any, len(out.columns))
		for i := range row {
			to[i] = &row[i]
		}
		err = rows.Scan(to...)
		for _, value := range row {
			switch value := value.(type) {
			case string:
				size += len(value)
			case []byte:
				size += len(value)
			}
		}
		if size > maxBytes {
			return out, fmt.Errorf("the rows have more than %d bytes; select fewer", maxBytes)
		}
		out.rows = append(out.rows, row)
	}
	return out, errors.Join(err, rows.Err())
}
