package embedtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// userHeader names the principal of an HTTP request, if setup.Principals is set.
const userHeader = "Test-User"

// setup describes the server of a case. A child process receives it as JSON.
type setup struct {
	Limits     task.Limits // zero means no limits
	PageSize   int
	ParkAfter  time.Duration
	MaxReruns  int
	Version    string // of the tool versioned
	Without    string // a tool that the server does not have, although the options name it
	Accepts    []string
	Principals bool // by userHeader; "ada" outside of HTTP
	Tokens     bool
	List       bool
}

// fixture returns the fixture of s.
func (s setup) fixture(store task.Store, b *board) Fixture {
	tools, supports := s.fixtureTools(b)
	limits := s.Limits
	limits.Tasks = cmp.Or(limits.Tasks, -1)
	limits.Bytes = cmp.Or(limits.Bytes, -1)
	limits.Rate = cmp.Or(limits.Rate, -1)
	limits.PageSize = s.PageSize
	f := Fixture{Tools: tools, Tokens: s.Tokens, Options: embed.Options{
		Tasks: task.Options{
			Store: store, Limits: limits, Recovery: task.Recovery{ParkAfter: s.ParkAfter, MaxReruns: s.MaxReruns},
			Updates: task.Updates{Poll: pollInterval, Progress: task.Off}, Logger: slog.New(slog.DiscardHandler),
		},
		Tools: supports, List: s.List,
	}}
	if s.Principals {
		f.Options.Principal = func(_ context.Context, header http.Header) string {
			if header == nil {
				return "ada"
			}
			return header.Get(userHeader)
		}
	}
	return f
}

// pollInterval is the poll interval of all tasks.
const pollInterval = 250 * time.Millisecond

// childEnv is the environment variable that makes a test binary serve instead of test. Its value is
// a childSetup.
const childEnv = "MCPWIRE_EMBEDTEST"

// childSetup describes the server of a child process.
type childSetup struct {
	Subject string
	Dir     string // of the store and the notes
	Killed  bool   // serve until the process is killed; see Killed
	Setup   setup
}

// serveChild serves standard input and output.
func serveChild(text []byte, subjects []Subject) error {
	var s childSetup
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	n := slices.IndexFunc(subjects, func(x Subject) bool { return x.Name == s.Subject })
	if n < 0 {
		return fmt.Errorf("embedtest: Main has no subject %q", s.Subject)
	}
	store, err := bolt.Open(filepath.Join(s.Dir, "tasks"))
	if err != nil {
		return err
	}
	defer store.Close()
	if s.Killed {
		return serveUntilKilled(s, subjects[n], store)
	}
	notes, err := newBoard(filepath.Join(s.Dir, "notes"))
	if err != nil {
		return err
	}
	endpoint, err := subjects[n].Serve(s.Setup.fixture(store, notes))
	if err != nil {
		return err
	}
	notes.change(func() { notes.manager = endpoint.Manager })
	defer endpoint.Close()
	return endpoint.Stdio(context.Background())
}

// server is the server of a case. It can be stopped, killed and started again with the same store.
type server struct {
	subject   Subject
	transport string
	setup     setup

	store    task.Store // nil for child processes
	board    *board     // nil for child processes
	dir      string     // of child processes
	endpoint *Endpoint
	web      *httptest.Server
	process  stdio.Process
	stderr   lockedBuffer
}

// lockedBuffer is a buffer for the standard error of a child process.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start starts a server.
func (s *server) start() (err error) {
	if s.transport == "stdio" {
		text, err := json.Marshal(childSetup{Subject: s.subject.Name, Dir: s.dir, Setup: s.setup})
		if err != nil {
			return err
		}
		s.process, err = stdio.Start(stdio.Command{Path: os.Args[0], Env: append(os.Environ(), childEnv+"="+string(text)), Stderr: &s.stderr, ExitTimeout: caseTimeout})
		return err
	}
	if s.store == nil {
		s.store = memory.New()
		if s.board, err = newBoard(""); err != nil {
			return err
		}
	}
	if s.endpoint, err = s.subject.Serve(s.setup.fixture(s.store, s.board)); err != nil {
		return err
	}
	s.board.change(func() { s.board.manager = s.endpoint.Manager })
	if s.transport == "http" {
		s.web = httptest.NewServer(s.endpoint.Handler)
	}
	return nil
}

// stop shuts down the server. The caller has closed its clients.
func (s *server) stop() error {
	if s.process != nil {
		err := s.process.Close()
		s.process = nil
		return err
	}
	if s.endpoint == nil {
		return nil
	}
	err := s.endpoint.Close()
	s.endpoint = nil
	if s.web != nil {
		s.web.Close()
		s.web = nil
	}
	return err
}

// connect opens a connection. Over stdio, each server has only one. Listening is closed when the
// standing stream of a session over HTTP is open; it is nil for other transports.
func (s *server) connect(header http.Header) (conn transport.Conn, listening chan struct{}, err error) {
	switch s.transport {
	case "stdio":
		return s.process, nil, nil
	case "http":
		l := &listener{RoundTripper: s.web.Client().Transport, opened: make(chan struct{})}
		conn, err = streamable.Dial(s.web.URL, streamable.ClientOptions{NoFallback: true, Options: httpclient.Options{HTTP: &http.Client{Transport: l}, Header: header}})
		return conn, l.opened, err
	}
	conn, err = s.endpoint.Connect()
	return conn, nil, err
}

// listener closes opened when the response to the first GET begins.
type listener struct {
	http.RoundTripper
	once   sync.Once
	opened chan struct{}
}

func (l *listener) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if r.Method == http.MethodGet {
		l.once.Do(func() { close(l.opened) })
	}
	return response, err
}

// kill ends the child process at once.
func (s *server) kill() error {
	err := killProcess(s.process)
	s.process.Close() // its error says that the process was killed
	s.process = nil
	return err
}

// killProcess kills a child process.
func killProcess(p stdio.Process) error {
	process, err := os.FindProcess(p.PID())
	if err != nil {
		return err
	}
	return process.Kill()
}
