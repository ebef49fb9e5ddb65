package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// The tool of the members.
const tool = "work"

// work is the input of the tool, and its output.
type work struct {
	Steps int `json:"steps" jsonschema:"number of steps"`
}

// made is the result of a step, about 100 bytes.
var made = strings.Repeat("made of ten ", 8)

// runWork is the tool. Its steps return at once, so that the cost of tasks and steps is measured.
func runWork(ctx context.Context, c *server.Call, in work) (work, error) {
	for i := range in.Steps {
		if _, err := server.Step(ctx, c, fmt.Sprintf("step %d", i+1), func(context.Context) (string, error) { return made, nil }); err != nil {
			return work{}, err
		}
	}
	return in, nil
}

// member is a process that serves the protocol over HTTP and runs tasks.
type member struct {
	url      string
	nc       *nats.Conn // nil with bolt
	js       natsjs.JetStream
	replicas int
	close    func() error
}

func startMember(ctx context.Context, r role) (_ *member, err error) {
	m := &member{replicas: r.Replicas}
	var ends []func() error
	m.close = func() (err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			err = errors.Join(err, ends[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	cfg := new(server.Options)
	cfg.Tasks.Limits = task.Limits{Tasks: -1, Bytes: -1, Rate: -1}
	if r.Store == "bolt" {
		if cfg.Tasks.Store, err = bolt.Open(filepath.Join(r.Dir, "tasks.db")); err != nil {
			return nil, err
		}
	} else {
		if m.nc, err = nats.Connect(r.URLs, nats.MaxReconnects(-1)); err != nil {
			return nil, err
		}
		ends = append(ends, func() error { m.nc.Close(); return nil })
		if m.js, err = natsjs.New(m.nc); err != nil {
			return nil, err
		}
		if cfg.Tasks.Store, err = jetstream.Open(ctx, m.js, jetstream.Options{Name: r.Store, Replicas: r.Replicas}); err != nil {
			return nil, err
		}
	}
	ends = append(ends, cfg.Tasks.Store.Close)
	s := server.New("bench", "1", cfg)
	server.AddTool(s, tool, "Does nothing in steps.", runWork, server.Tasks(receiver.Support{Restartable: true, After: -1}))
	handler, err := s.Handler(nil)
	if err != nil {
		return nil, err
	}
	ends = append(ends, s.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: handler}
	go web.Serve(listener) // ends with Close
	ends = append(ends, web.Close)
	m.url = "http://" + listener.Addr().String()
	return m, nil
}

// perform carries out a command.
func (m *member) perform(ctx context.Context, c command) (r report, err error) {
	if c.Floor != nil {
		r.Done, err = m.floor(ctx, c.Floor)
	}
	if m.nc != nil {
		sent := m.nc.Stats()
		r.Messages, r.Bytes = sent.OutMsgs, sent.OutBytes
	}
	return r, err
}

// floor describes the minimal work of a durable store in JetStream: it publishes messages of a given
// size, each after the acknowledgement of the message before.
type floor struct {
	Callers, Messages, Bytes int
	Time                     time.Duration
}

// floorStream is the stream of floors.
const floorStream = "floor"

// floor returns how often all messages were published. Each time they have another subject, and the
// stream keeps only the last message, as for a record.
func (m *member) floor(ctx context.Context, f *floor) (done int, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.Time+patience)
	defer cancel()
	err = insist(ctx, func(ctx context.Context) error {
		_, err := m.js.CreateOrUpdateStream(ctx, natsjs.StreamConfig{
			Name: floorStream, Subjects: []string{floorStream + ".*"}, Replicas: m.replicas, MaxMsgsPerSubject: 1, AllowDirect: true,
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	data := make([]byte, f.Bytes)
	start := time.Now()
	var n atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range f.Callers {
		group.Go(func() {
			for time.Since(start) < f.Time {
				subject := floorStream + "." + rand.Text()
				for range f.Messages {
					err := insist(ctx, func(ctx context.Context) error {
						_, err := m.js.Publish(ctx, subject, data)
						return err
					})
					if err != nil {
						failed.Store(&err)
						return
					}
				}
				n.Add(1)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return int(n.Load()), nil
}

// insist repeats a request to the servers that they do not answer, as they may lose it while they elect
// a leader.
func insist(ctx context.Context, request func(ctx context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := request(attempt)
		lost := attempt.Err() != nil
		cancel()
		if err == nil || !lost || ctx.Err() != nil {
			return err
		}
	}
}
