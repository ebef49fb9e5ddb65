package boltstore_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// TestKillDuringWrites kills a process during its writes: a few times by default, and a thousand
// times with
//
//	go test ./runtime/transport/streamable/boltstore -run Kill -kills 1000
var kills = flag.Int("kills", 5, "how often TestKillDuringWrites kills a process")

// The killed process is this test program. These environment variables select its file and the
// prefix of its session ids.
const (
	fileEnv   = "MCPWIRE_EVENTS_FILE"
	prefixEnv = "MCPWIRE_EVENTS_PREFIX"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(fileEnv); path != "" {
		fmt.Fprintln(os.Stderr, child(path, os.Getenv(prefixEnv)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	writers      = 8
	eventsShort  = 6        // on each stream of a plain session
	eventsLong   = 60       // on the only stream of a session that exceeds sessionBytes
	sessionBytes = 64 << 10 // less than the size of eventsLong events
)

func options() boltstore.Options { return boltstore.Options{MaxSessionBytes: sessionBytes} }

// textOf returns the text of an event, which differs from that of all others.
func textOf(session, stream string, n uint64) string {
	return fmt.Sprintf("%s %s %d %s", session, stream, n, strings.Repeat("x", int(n*997%3000)))
}

// child writes until it is killed. It prints a line after each write, and before it forgets a
// session: the kind of write and the session, and for some kinds the stream and the number of the
// event.
func child(path, prefix string) error {
	s, err := boltstore.Open(path, options())
	if err != nil {
		return err
	}
	var mu sync.Mutex
	ack := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	ack("ready")
	failed := make(chan error)
	for w := range writers {
		go func() { // ends with the process
			for n := 0; ; n++ {
				kind := []string{"plain", "forgotten", "long"}[n%3]
				if err := writeSession(s, fmt.Sprintf("%s-%s-%d-%d", kind, prefix, w, n), ack); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// writeSession performs the writes of one session: a plain one with three streams, one that is
// forgotten, or one that exceeds sessionBytes.
func writeSession(s *boltstore.Store, session string, ack func(...any)) error {
	ctx := context.Background()
	streams, events := []string{"0", "1", "a"}, eventsOf(session)
	if events == eventsLong {
		streams = streams[:1]
	}
	if err := s.PersistOpening(ctx, session, streamable.Opening{Principal: session}); err != nil {
		return err
	}
	ack("opened", session)
	for _, stream := range streams {
		if err := s.Begin(ctx, session, stream, []byte(session+stream)); err != nil {
			return err
		}
		ack("begun", session, stream)
		for number := uint64(1); number <= events; number++ {
			e := streamable.Event{Number: number, Text: []byte(textOf(session, stream, number)), Last: number == events}
			if err := s.Append(ctx, session, stream, e); err != nil {
				return err
			}
			ack("appended", session, stream, number)
		}
	}
	if strings.HasPrefix(session, "forgotten") {
		ack("forgetting", session)
		if err := s.Forget(ctx, session); err != nil {
			return err
		}
		ack("forgotten", session)
	}
	return nil
}

// eventsOf returns the number of events on each stream of a session.
func eventsOf(session string) uint64 {
	if strings.HasPrefix(session, "long") {
		return eventsLong
	}
	return eventsShort
}

// ackedSession holds the writes of a session that a child has acknowledged.
type ackedSession struct {
	streams               map[string]uint64 // number of the newest event of each; 0 for none
	forgetting, forgotten bool
}

// Acknowledged writes survive a kill -9 at a random moment under load, many times on the same file:
// sessions, streams and events, complete and without a gap.
func TestKillDuringWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "events.db")
	known := map[string]*ackedSession{}
	total := 0
	for n := range *kills {
		total += killOnce(t, path, fmt.Sprint(n), time.Duration(random.IntN(100_000))*time.Microsecond, known)
		compare(t, path, known)
		if t.Failed() {
			t.Fatalf("at kill %d of %d", n+1, *kills)
		}
		if n%10 == 9 { // each kill adds sessions to compare
			os.Remove(path)
			clear(known)
		}
	}
	t.Logf("%d kills, %d acknowledgements", *kills, total)
}

// killOnce runs a child and kills it a given time after it is ready.
func killOnce(t *testing.T, path, prefix string, after time.Duration, known map[string]*ackedSession) (acks int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fileEnv+"="+path, prefixEnv+"="+prefix)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF { // an incomplete line acknowledges nothing
			break
		}
		if err != nil {
			t.Error(err)
			break
		}
		var kind, session, stream string
		var number uint64
		fmt.Sscan(line, &kind, &session, &stream, &number)
		if acks++; kind == "ready" {
			timer.Reset(after)
			continue
		}
		if kind == "opened" {
			known[session] = &ackedSession{streams: map[string]uint64{}}
		}
		a := known[session]
		switch kind {
		case "begun", "appended":
			a.streams[stream] = number
		case "forgetting":
			a.forgetting = true
		case "forgotten":
			a.forgotten = true
		}
	}
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("standard error of the child: %s", stderr.String())
	}
	return acks
}

// compare opens the file, as the next process would, and compares its content with the acknowledged
// writes.
func compare(t *testing.T, path string, known map[string]*ackedSession) {
	t.Helper()
	s, err := boltstore.Open(path, options())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for session, a := range known {
		opening, streams, err := s.Load(t.Context(), session)
		if a.forgetting && errors.Is(err, streamable.ErrUnknown) {
			continue
		}
		if a.forgotten || err != nil || opening.Principal != session {
			t.Errorf("session %s, forgotten %v: %+v, %v", session, a.forgotten, opening, err)
			continue
		}
		newest := map[string]uint64{}
		for _, k := range streams {
			newest[k.Stream] = k.Last.Number
			if want := session + k.Stream; !k.Last.Last && string(k.Requests) != want {
				t.Errorf("stream %s of %s has the requests %q", k.Stream, session, k.Requests)
			}
		}
		last := eventsOf(session)
		for stream, number := range a.streams {
			if newest[stream] < number || newest[stream] > number+1 {
				t.Errorf("stream %s of %s ends with %d, want %d or the number after it", stream, session, newest[stream], number)
				continue
			}
			checkEvents(t, s, session, stream, newest[stream], last)
		}
	}
}

// checkEvents checks that the events of a stream are complete and without a gap, from the first one
// that the limit leaves to the newest.
func checkEvents(t *testing.T, s *boltstore.Store, session, stream string, newest, last uint64) {
	t.Helper()
	if newest == 0 {
		return
	}
	events, err := s.Events(t.Context(), session, stream, 0)
	if err != nil || len(events) == 0 {
		t.Errorf("stream %s of %s: %d events, %v", stream, session, len(events), err)
		return
	}
	first, size := events[0].Number, 0
	for i, e := range events {
		if e.Number != first+uint64(i) || string(e.Text) != textOf(session, stream, e.Number) || e.Last != (e.Number == last) {
			t.Errorf("event %d of stream %s of %s is %+v", first+uint64(i), stream, session, e)
		}
		size += len(e.Text)
	}
	if end := events[len(events)-1].Number; end != newest || size > sessionBytes {
		t.Errorf("stream %s of %s ends with %d, want %d, and has %d bytes", stream, session, end, newest, size)
	}
	if full := sessionBytes / 2; first > 1 && size < full {
		t.Errorf("stream %s of %s begins with %d, and has %d bytes only", stream, session, first, size)
	}
}
