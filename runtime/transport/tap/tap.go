// Package tap observes the messages of a connection: [Log] logs them, and a [Recorder] records them
// for the command "mcpwire trace", which lists or draws them.
//
//	conn, err := stdio.Start(stdio.Command{Path: "weather-server"})
//	…
//	c, err := client.Connect(ctx, tap.Log(conn, slog.Default()), nil)
//
// An observed connection keeps its optional methods; see [transport.As]. Messages may contain
// secrets of users and of servers: protect the log and the record accordingly.
package tap

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/tracefile"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// observer receives the messages and the errors of a connection.
type observer interface {
	message(sent bool, text []byte)
	failed(op string, err error)
}

// conn is an observed connection.
type conn struct {
	transport.Conn
	o observer
}

// Unwrap implements [transport.Unwrapper].
func (c *conn) Unwrap() transport.Conn { return c.Conn }

func (c *conn) Read() (transport.Message, error) {
	return c.received(c.Conn.Read())
}

// Push implements [ability.Pusher] if the connection does.
func (c *conn) Push(of transport.Conn, take func(transport.Message, error)) bool {
	p, ok := c.Conn.(ability.Pusher)
	return ok && of == transport.Conn(c) && p.Push(c.Conn, func(m transport.Message, err error) {
		take(c.received(m, err))
	})
}

func (c *conn) received(m transport.Message, err error) (transport.Message, error) {
	if err != nil {
		c.o.failed("read", err)
		return m, err
	}
	c.o.message(false, m.Text)
	if m.Reply != nil {
		m.Reply = &reply{m.Reply, c}
	}
	return m, nil
}

// Write observes the message before it is sent, so that its answer comes later.
func (c *conn) Write(ctx context.Context, m transport.Message) error {
	c.o.message(true, m.Text)
	return c.wrote(c.Conn.Write(ctx, m))
}

func (c *conn) wrote(err error) error {
	if err != nil {
		c.o.failed("write", err)
	}
	return err
}

// reply is the Reply of an observed message.
type reply struct {
	transport.Reply
	c *conn
}

// Send writes a message to the connection after the answer. The caller would do the same, and the
// message would be observed twice.
func (r *reply) Send(ctx context.Context, text []byte) error {
	r.c.o.message(true, text)
	err := r.Reply.Send(ctx, text)
	if errors.Is(err, transport.ErrAnswered) {
		err = r.c.Conn.Write(ctx, transport.Message{Text: text})
	}
	return r.c.wrote(err)
}

func (r *reply) Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error {
	if text != nil {
		r.c.o.message(true, text)
	}
	return r.c.wrote(r.Reply.Answer(ctx, text, failed))
}

// Log returns a connection that logs each message of c as an event at level debug, with its
// direction, its method or id, and its text. Errors are logged at the same level. If l does not log
// that level, messages are not parsed. The logger must not be nil.
func Log(c transport.Conn, l *slog.Logger) transport.Conn { return &conn{c, logger{l}} }

type logger struct{ l *slog.Logger }

func (l logger) message(sent bool, text []byte) {
	ctx := context.Background()
	if !l.l.Enabled(ctx, slog.LevelDebug) {
		return
	}
	event := "message received"
	if sent {
		event = "message sent"
	}
	m, _ := jsonrpc.Parse(text, append(codec.AllowSize(text), codec.NoCopy())...)
	attrs := []slog.Attr{slog.String("kind", m.Kind.String())}
	if m.Method != "" {
		attrs = append(attrs, slog.String("method", m.Method))
	}
	if !m.ID.IsZero() {
		attrs = append(attrs, slog.String("id", m.ID.String()))
	}
	l.l.LogAttrs(ctx, slog.LevelDebug, event, append(attrs, slog.String("text", string(text)))...)
}

func (l logger) failed(op string, err error) { l.l.Debug(op+" failed", "error", err) }

// Recorder records messages as NDJSON, in the format of the command "mcpwire record". Its methods
// are safe for concurrent use.
type Recorder struct{ w *tracefile.Writer }

// NewRecorder returns a Recorder that writes to w, one message at a time. It does not close w.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{tracefile.NewWriter(w)} }

// Wrap returns a connection that records the messages of c under the name of a session. From is the
// direction of the messages that are written to c: [mcp.FromClient] for the end of a client.
func (r *Recorder) Wrap(c transport.Conn, session string, from mcp.Direction) transport.Conn {
	return &conn{c, &recording{r, session, from}}
}

// Err returns the error of the first write that failed, or nil. Later messages are not recorded.
func (r *Recorder) Err() error { return r.w.Err() }

// recording records a session.
type recording struct {
	r       *Recorder
	session string
	from    mcp.Direction
}

func (s *recording) message(sent bool, text []byte) {
	s.r.w.Write(func(e *tracefile.Entry) {
		e.Session, e.From = s.session, tracefile.Server
		if sent == (s.from == mcp.FromClient) {
			e.From = tracefile.Client
		}
		e.SetLine(text)
	})
}

func (s *recording) failed(op string, err error) {
	if !errors.Is(err, transport.ErrClosed) && err != io.EOF {
		s.r.w.Write(func(e *tracefile.Entry) { e.Session, e.Event = s.session, op+" failed: "+err.Error() })
	}
}
