package boundary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// broken panics in every method.
type broken struct{}

func (broken) Error() string           { panic("Error") }
func (broken) String() string          { panic("String") }
func (broken) EncodeJSON(*wire.Writer) { panic("EncodeJSON") }
func (broken) Unwrap() error           { panic("Unwrap") }
func (broken) LogValue() slog.Value    { panic("LogValue") }
func (broken) As(any) bool             { panic("As") }
func (broken) Enabled(context.Context, slog.Level) bool {
	panic("Enabled")
}
func (broken) Handle(context.Context, slog.Record) error { panic("Handle") }
func (b broken) WithAttrs([]slog.Attr) slog.Handler      { return b }
func (b broken) WithGroup(string) slog.Handler           { return b }

func TestPanicBecomesAnError(t *testing.T) {
	for name, f := range map[string]func() error{
		"a panic":                     func() error { panic("oh") },
		"a panic with nil":            func() error { panic(nil) },
		"a panic with a broken value": func() error { panic(broken{}) },
		"an encoder":                  func() error { _, err := boundary.Marshal(broken{}); return err },
	} {
		err := boundary.Run(f)
		p, ok := errors.AsType[*boundary.Panic](err)
		if !ok || len(p.Stack) == 0 {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if err.Error() == "" {
			t.Errorf("%s: no text", name)
		}
		var logged bytes.Buffer
		if !boundary.Report(slog.New(slog.NewTextHandler(&logged, nil)), "handler panicked", err, "method", "x") {
			t.Errorf("%s: not reported", name)
		}
		for _, want := range []string{"handler panicked", "method=x", "boundary_test.go"} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("%s: %q lacks %q", name, logged.String(), want)
			}
		}
	}
	want := errors.New("plain")
	if err := boundary.Run(func() error { return want }); err != want || boundary.Report(slog.Default(), "", err) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// An error that is returned can be examined anywhere.
func TestErrorThatCannotBeExaminedIsReplaced(t *testing.T) {
	err := boundary.Run(func() error { return fmt.Errorf("outer: %w", broken{}) })
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Message != "internal error: methods of the error panic (*fmt.wrapError)" {
		t.Errorf("got %v", err)
	}
}

func TestWireError(t *testing.T) {
	var none *jsonrpc.Error
	own := &jsonrpc.Error{Code: 7, Message: "seven"}
	for name, row := range map[string]struct {
		err     error
		code    int64
		message string
	}{
		"an error of the protocol":   {fmt.Errorf("outer: %w", own), 7, "seven"},
		"one whose text is no UTF-8": {&jsonrpc.Error{Code: 7, Message: "caf\xe9"}, 7, "caf\uFFFD"},
		"a nil one":                  {none, jsonrpc.CodeInternalError, "internal error: the handler failed with a nil error"},
		"a wrapped nil one":          {fmt.Errorf("outer: %w", none), jsonrpc.CodeInternalError, "internal error: the handler failed with a nil error"},
		"another error":              {errors.New("caf\xe9 is closed"), jsonrpc.CodeInternalError, "caf\uFFFD is closed"},
		"a broken one":               {broken{}, jsonrpc.CodeInternalError, "internal error: the error has no text"},
		"a panic":                    {&boundary.Panic{Value: "secret"}, jsonrpc.CodeInternalError, "internal error: the handler panicked"},
		"a goroutine that ended":     {boundary.ErrGoexit, jsonrpc.CodeInternalError, "internal error: the handler panicked"},
	} {
		e := boundary.WireError(row.err)
		if e == nil || e.Code != row.code || e.Message != row.message {
			t.Errorf("%s: got %v, want %q with code %d", name, e, row.message, row.code)
		}
	}
	if e := boundary.WireError(own); e != own {
		t.Errorf("got a copy of an error that was sound")
	}
	if e := boundary.WireError(errors.New(strings.Repeat("x", 1<<20))); len(e.Message) > 20<<10 {
		t.Errorf("got a message of %d bytes", len(e.Message))
	}
}

func TestErrorText(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("plain"), "plain"},
		{broken{}, "boundary_test.broken without a text: panic: Error"},
		{(*jsonrpc.Error)(nil), "jsonrpc: error is nil"},
	} {
		if got := boundary.ErrorText(row.err); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", "abcdefgh", "日本語日本語", "\xe9\xe9\xe9\xe9\xe9\xe9\xe9", strings.Repeat("\x80", 600), "🙂🙂🙂"} {
		for max := range 9 {
			got := boundary.Text(text, max)
			if !utf8.ValidString(got) || len(text) <= max && utf8.ValidString(text) && got != text {
				t.Errorf("%q, %d: got %q", text, max, got)
			}
			if len(got) > max+len("…") {
				t.Errorf("%q, %d: got %d bytes", text, max, len(got))
			}
		}
	}
}

func TestLoggerRecoversHandlerPanics(t *testing.T) {
	log := boundary.Logger(slog.New(broken{}))
	log.Error("event", "key", "value")
	log.With("key", "value").WithGroup("group").Error("event")
	if boundary.Logger(log) != log {
		t.Error("it was wrapped twice")
	}
}

func TestWarningsGoToTheDefaultLogger(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	log := boundary.Logger(nil)
	log.Info("quiet")
	log.With("key", "value").Info("quiet")
	log.With("key", "value").Warn("refused")
	log.Error("panicked")
	if got := logged.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "refused") || !strings.Contains(got, "panicked") {
		t.Errorf("logged %s", got)
	}
}
