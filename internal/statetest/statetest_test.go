package statetest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"go/version"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/server"
)

var update = flag.Bool("update", false, "rewrite the fixtures of the version of Go that runs the test")

// odd is a text that encoders escape in different ways.
const odd = "<&>\u2028\u2029\ufffd\x7f\"\\/é\U0001F600"

// kinds are the kinds of state. Each one writes its fixtures into a folder, and reads them there.
var kinds = []struct {
	name        string
	write, read func(t *testing.T, dir string)
}{
	{"tasks", writeTasks, readTasks},
	{"rounds", writeRounds, readRounds},
	{"sessions", writeSessions, readSessions},
	{"credentials", writeCredentials, readCredentials},
	{"recording", writeRecording, readRecording},
}

// State outlasts a change of the version of Go that builds the program.
func TestStateOfOtherVersionsOfGo(t *testing.T) {
	own := filepath.Join("testdata", version.Lang(runtime.Version()))
	if *update {
		if err := os.MkdirAll(own, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, k := range kinds {
			synctest.Test(t, func(t *testing.T) { k.write(t, own) })
		}
	}
	dirs, err := filepath.Glob("testdata/go*")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("fixtures %q, %v, want those of two versions of Go", dirs, err)
	}
	for _, dir := range dirs {
		for _, k := range kinds {
			t.Run(filepath.Base(dir)+"/"+k.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { k.read(t, dir) })
			})
		}
	}
}

// saveFacts writes what a fixture contains as a file of the folder.
func saveFacts(t *testing.T, dir, name string, facts any) {
	t.Helper()
	text, err := json.MarshalIndent(facts, "", "\t")
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o666))
}

func loadFacts[T any](t *testing.T, dir, name string) (facts T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	noError(t, err)
	noError(t, json.Unmarshal(text, &facts))
	return facts
}

// pack compresses a file into the folder: files of bbolt consist mostly of zeros.
func pack(t *testing.T, file, dir string) {
	t.Helper()
	content, err := os.ReadFile(file)
	noError(t, err)
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	noError(t, err)
	_, err = w.Write(content)
	noError(t, err)
	noError(t, w.Close())
	noError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)+".gz"), out.Bytes(), 0o666))
}

// unpack returns the path of a copy of a packed file.
func unpack(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.Open(filepath.Join(dir, name+".gz"))
	noError(t, err)
	defer content.Close()
	r, err := gzip.NewReader(content)
	noError(t, err)
	text, err := io.ReadAll(r)
	noError(t, err)
	file := filepath.Join(t.TempDir(), name)
	noError(t, os.WriteFile(file, text, 0o600))
	return file
}

// newServer returns a server that is closed at the end of the test.
func newServer(t *testing.T, cfg server.Options) *server.Server {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := server.New("state", "1", &cfg)
	t.Cleanup(func() { s.Close() })
	return s
}

// request returns a request of ann over HTTP. more are the names and values of header fields.
func request(t *testing.T, method, body string, more ...string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/", strings.NewReader(body))
	r.Header.Set("Authorization", "ann")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	return r
}

// principal is the Principal of the handlers.
func principal(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

// serve returns the response to a request.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// openSession opens a session and returns its id.
func openSession(t *testing.T, h http.Handler) string {
	t.Helper()
	w := serve(h, request(t, "POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}},"clientInfo":{"name":"<&>\u2028","version":"1"}}}`))
	id := w.Header().Get("MCP-Session-Id")
	if id == "" {
		t.Fatalf("initialize: %d %s", w.Code, w.Body)
	}
	serve(h, request(t, "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "MCP-Session-Id", id))
	return id
}

// resultOf returns the result in a response, or the error.
func resultOf(t *testing.T, w *httptest.ResponseRecorder) json.RawMessage {
	t.Helper()
	var response struct{ Result, Error json.RawMessage }
	text := w.Body.Bytes()
	if list := messages(w); len(list) > 0 {
		text = []byte(list[len(list)-1].text)
	}
	if err := json.Unmarshal(text, &response); err != nil {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	if response.Error != nil {
		return response.Error
	}
	return response.Result
}

// event is an event of a stream.
type event struct{ id, text string }

// messages returns the events of a response that have a message.
func messages(w *httptest.ResponseRecorder) (list []event) {
	for block := range strings.SplitSeq(w.Body.String(), "\n\n") {
		var e event
		for line := range strings.Lines(block) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				e.id = strings.TrimSpace(id)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.text = strings.TrimSpace(data)
			}
		}
		if e.text != "" {
			list = append(list, e)
		}
	}
	return list
}

// sleepUntil sleeps until the time at which a fixture was written, by the clock of synctest.
func sleepUntil(then time.Time) { time.Sleep(time.Until(then)) }

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint("statetest: ", err))
	}
	return v
}
