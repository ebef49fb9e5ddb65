package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// errNoServer is returned by functions that add a feature to a nil Server.
var errNoServer = errors.New("server: nil Server")

// mistake is the error of a call that configures the server, with the place of the call.
type mistake struct {
	file string // base name; "" if unknown
	line int
	err  error
}

// Error returns the text of the error with file and line.
func (m *mistake) Error() string {
	if m.file == "" {
		return m.err.Error()
	}
	return fmt.Sprintf("%s:%d: %v", m.file, m.line, m.err)
}

// Unwrap returns the error without the place.
func (m *mistake) Unwrap() error { return m.err }

// record records an error of a call from outside of this package, of the packages that extend the
// server and of those in by, unless it is nil, and returns it. Once the server has started, the error
// is only logged.
func (s *Server) record(err error, by ...string) error {
	if err == nil || s == nil {
		return err
	}
	m := &mistake{err: err}
	s.mu.Lock()
	for _, e := range s.extensions {
		by = append(by, e.by)
	}
	m.file, m.line = callSite(by)
	started := s.checked
	if !started {
		s.mistakes = append(s.mistakes, m)
	}
	s.mu.Unlock()
	if started {
		s.cfg.Logger.Warn("feature not added", "error", m)
	}
	return err
}

// RecordMistake adds err to the errors that [Server.Err] returns, with file and line of the call,
// and returns err. It does nothing if err is nil. Packages that add features to a server call it
// for mistakes of their own callers.
func (s *Server) RecordMistake(err error) error { return s.record(err, caller()) }

// callSite returns the base name of the file, and the line, of the latest call from another package
// to this one, to package proxy or to packages with the paths in by. It skips all frames of these
// packages, because generic functions and closures add some. Those in by count if no other package
// has called them, as in a program that extends its own server.
func callSite(by []string) (file string, line int) {
	own := reflect.TypeFor[Server]().PkgPath()
	var counters [32]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters[:])])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch name := packageOf(frame.Function); {
		case name == "" || name == own || name == strings.TrimSuffix(own, "server")+"proxy":
		case !slices.Contains(by, name):
			if file == "" || name != "runtime" && name != "testing" {
				return filepath.Base(frame.File), frame.Line
			}
			return file, line
		case file == "":
			file, line = filepath.Base(frame.File), frame.Line
		}
	}
	return file, line
}

// caller returns the path of the package that has called the function that calls caller.
func caller() string {
	var counters [1]uintptr
	frame, _ := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])]).Next()
	return packageOf(frame.Function)
}

// packageOf returns the path of the package of a function, which is named as in [runtime.Frame].
func packageOf(function string) string {
	dir := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[dir:], ".")
	return function[:dir] + name
}

// Err returns the mistakes that were made before the server started, or nil if there are none: in
// the arguments of [New], and in calls of functions that add features. Each has the file and the
// line of the call, such as
//
//	main.go:14: server: tool "greet": nil function
//
// The server does not start while there are mistakes, so that [Handle.Err] need not be checked. After
// the start, mistakes are only logged as warnings.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.mistakes...)
}

// Start starts the server, once. Every method that serves clients calls it. Call it earlier to
// recover tasks before the first client connects, and to see its error if other code calls
// [Server.Serve], such as the callback of an HTTP handler. The unfinished tasks of a tool that is
// added later wait until then.
//
// Start fails with the errors of [Server.Err], with [session.ErrClosed] if the server was closed,
// with the error of [Shared.Bus], and with those of [task.New] if there is an Options.Tasks.Store.
// In the last two cases, a later call tries again. If ctx ends during the recovery of tasks, Start
// fails; later, ctx has no effect.
//
// If another process uses the store of the tasks ([task.ErrLocked]), as with [bolt.File], the
// server starts without tasks: calls are plain ones, and those of tools that need tasks fail with a
// temporary error. Once a second, the server tries to use the store. Then it recovers the tasks,
// and declares them to new sessions and to requests without a session.
//
// [bolt.File]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/task/bolt#File
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if started {
		return nil
	}
	s.starting.Lock() // held while the store is read, because other callers need its tasks, too
	defer s.starting.Unlock()
	if started, err := s.check(); started || err != nil {
		return err
	}
	err := s.joinBus()
	if err == nil {
		err = s.startTasks(ctx)
	}
	locked := errors.Is(err, task.ErrLocked)
	if locked {
		s.cfg.Logger.Warn("server started without tasks", "error", err)
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.checked = false
		return fmt.Errorf("server: start: %w", err)
	}
	s.started = true
	s.onBus.Store(true)
	if locked && !s.closed {
		ctx, s.stopWaiting = context.WithCancel(context.Background())
		s.running.Add(1)
		go s.awaitStore(ctx) // ends when endAll calls stopWaiting
	}
	return nil
}

// storeInterval is how often the server tries to use a store that another process uses. It is the
// time for which tasks are interrupted if that process ends.
const storeInterval = time.Second

// awaitStore makes the Manager once no other process uses the store of the tasks.
func (s *Server) awaitStore(ctx context.Context) {
	defer s.running.Done()
	ticker := time.NewTicker(storeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := s.useStore(ctx); !errors.Is(err, task.ErrLocked) {
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Error("server continues without tasks", "error", err)
			}
			return
		}
	}
}

// useStore makes the Manager of a server that has started without one, unless the server is closed.
func (s *Server) useStore(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.startTasks(ctx); err != nil {
		return err
	}
	s.cfg.Logger.Info("store of the tasks is free, tasks recovered")
	return nil
}

// noTasks is the error of a call that needs tasks while another process uses their store.
func noTasks() error {
	return &jsonrpc.Error{Code: session.CodeOverloaded, Message: "tasks are not available: another process uses their store, try again later"}
}

// check reports whether the server has started. If not, it returns an error if the server must not
// start. The caller must hold starting.
func (s *Server) check() (started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.started:
		return true, nil
	case s.closed:
		return false, session.ErrClosed
	case len(s.mistakes) > 0:
		return false, errors.Join(s.mistakes...)
	}
	s.checked = true
	return false, nil
}

// startTasks makes the Manager of the tasks of the server, if there is a store. Tasks that it
// recovers at once begin when [Server.Tasks] returns it: their handlers may use it, for example to
// send signals.
func (s *Server) startTasks(ctx context.Context) error {
	if s.cfg.Tasks.Store == nil {
		return nil
	}
	tools := s.tools.enabled.Load()
	ready := make(chan struct{})
	m, err := s.newManager(ctx, func(work task.Work) task.Work {
		return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			select {
			case <-ready:
				return work(ctx, run)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	})
	if err != nil {
		return err
	}
	s.tasks.Store(m)
	if err := s.extend(s.tasksExtension(m), ""); err != nil {
		return err // not reached, unless another extension has the methods
	}
	close(ready)
	if tools != s.tools.enabled.Load() {
		m.ToolsChanged() // announce has not found m yet
	}
	return nil
}

// newManager returns a Manager for the tasks of the server. The work of recovered tasks is what wrap
// returns.
func (s *Server) newManager(ctx context.Context, wrap func(task.Work) task.Work) (*task.Manager, error) {
	cfg := s.cfg.Tasks
	other := cfg.Recovery.Recover
	recovered := func(r task.Record) task.Work {
		if r.Method == mcp.MethodToolsCall {
			name, _ := modern.TextMember(r.Params, "name")
			if e, ok := s.tools.find(name); ok {
				if !rerun.Continues(&r, e.value.version, e.value.accepted) {
					return nil
				}
				return receiver.Work(e.value.keep(s.dispatch), r)
			}
		}
		if other == nil {
			return nil
		}
		return other(r)
	}
	cfg.Recovery.Recover = func(r task.Record) task.Work {
		if work := recovered(r); work != nil {
			return wrap(work)
		}
		return nil
	}
	for _, tool := range cfg.Member.Tools {
		if _, ok := s.tools.find(tool); !ok && other == nil {
			s.cfg.Logger.Warn("tool of Tasks.Member.Tools not found", "tool", tool) // possibly misspelled
		}
	}
	otherVersion := cfg.Recovery.ToolVersion
	cfg.Recovery.ToolVersion = func(tool string) string {
		if e, ok := s.tools.find(tool); ok {
			return e.value.version
		}
		if otherVersion == nil {
			return ""
		}
		return otherVersion(tool)
	}
	otherLimit := cfg.Limits.Tool
	cfg.Limits.Tool = func(tool string) int {
		if e, ok := s.tools.find(tool); ok {
			return e.value.maxRunning
		}
		if otherLimit == nil {
			return 0
		}
		return otherLimit(tool)
	}
	return task.New(ctx, cfg)
}

// Tasks returns the Manager of the server's tasks. It returns nil before the start, and without
// Options.Tasks.Store. The server closes the Manager.
func (s *Server) Tasks() *task.Manager { return s.tasks.Load() }
