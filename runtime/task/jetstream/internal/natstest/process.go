package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// envNode is set in the environment of a process that runs a server.
const envNode = "NATSTEST_NODE"

func init() {
	if path := os.Getenv(envClock); path != "" {
		if err := useClock(path); err != nil {
			fail(err)
		}
	}
	if dir := os.Getenv(envDisk); dir != "" {
		if err := holdDisk(dir, os.Getenv(envDiskSize)); err != nil {
			fail(err)
		}
		os.Exit(0)
	}
	if os.Getenv(envNode) != "" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		os.Exit(0)
	}
}

// fail ends a child process of the test.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "natstest:", err)
	os.Exit(1)
}

// RunProcesses is [Run] with a process for each server, so that [Cluster.Pause], [Cluster.Stutter]
// and [Cluster.StepClock] apply. Of the options of a server, functions in configure may change
// StoreDir, SyncInterval, SyncAlways, MaxPayload, JetStreamMaxStore and JetStreamMaxMemory.
func RunProcesses(t testing.TB, n int, configure ...func(*server.Options)) *Cluster {
	t.Helper()
	return run(t, n, true, configure)
}

// settings are the options that a process gets.
type settings struct {
	Name, StoreDir     string
	Cluster, Advertise string
	Routes             []string
	SyncInterval       time.Duration
	SyncAlways         bool
	MaxPayload         int32
	JetStreamMaxStore  int64
	JetStreamMaxMemory int64
}

// addresses are the addresses of a server.
type addresses struct{ Clients, Routes string }

// process is a server in a separate process.
type process struct {
	cmd       *exec.Cmd
	addresses addresses

	mu     sync.Mutex // guards the pipes
	stdin  io.WriteCloser
	stdout *bufio.Reader
	// deadline sets the time until which a read of stdout waits.
	deadline func(time.Time) error
	failed   error // of the first question without an answer

	pausing sync.Mutex  // guards the signals
	paused  atomic.Bool // see Cluster.Pause
}

// startProcess starts a server in a process and returns once it accepts connections.
func startProcess(o *server.Options, clock *Clock) (*process, error) {
	set := settings{
		Name: o.ServerName, StoreDir: o.StoreDir, Cluster: o.Cluster.Name, Advertise: o.Cluster.Advertise,
		SyncInterval: o.SyncInterval, SyncAlways: o.SyncAlways, MaxPayload: o.MaxPayload,
		JetStreamMaxStore: o.JetStreamMaxStore, JetStreamMaxMemory: o.JetStreamMaxMemory,
	}
	for _, u := range o.Routes {
		set.Routes = append(set.Routes, u.String())
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(binary)}
	EndWithTest(p.cmd)
	p.cmd.Env = append(os.Environ(), envNode+"=1")
	if clock != nil {
		p.cmd.Env = append(p.cmd.Env, clock.Env())
	}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout, p.deadline = bufio.NewReader(stdout), stdout.(*os.File).SetReadDeadline
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.ask(set, &p.addresses); err != nil {
		p.stop()
		return nil, fmt.Errorf("process has not started: %w", err)
	}
	return p, nil
}

// ask sends a line to the process and decodes the answer. Once it has failed, it always fails,
// because the answer to an earlier question may come late.
func (p *process) ask(request, response any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = p.askOnce(request, response)
	}
	return p.failed
}

func (p *process) askOnce(request, response any) error {
	if err := json.NewEncoder(p.stdin).Encode(request); err != nil {
		return err
	}
	if err := p.deadline(time.Now().Add(patience)); err != nil {
		return err
	}
	line, err := p.stdout.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, response)
}

func (p *process) clients() string { return p.addresses.Clients }
func (p *process) routes() string  { return p.addresses.Routes }

func (p *process) awake() bool { return !p.paused.Load() }

// is returns false if the process is paused or has ended. If it is paused during the question, is
// waits for the answer.
func (p *process) is(q question) (yes bool) {
	return p.awake() && p.ask(q, &yes) == nil && yes
}

// pause stops the process, and returns once it has stopped or ended.
func (p *process) pause() error {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	p.paused.Store(true)
	return pauseProcess(p.cmd.Process)
}

func (p *process) resume() error {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	err := resumeProcess(p.cmd.Process)
	p.paused.Store(false)
	return err
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func (p *process) shutdown() {
	var done bool
	p.ask(question{Shutdown: true}, &done) // fails if the process has ended
	p.stop()
}

// serve runs a server and answers questions until in ends.
func serve(in io.Reader, out io.Writer) error {
	requests, responses := json.NewDecoder(in), json.NewEncoder(out)
	var set settings
	if err := requests.Decode(&set); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: set.Name, StoreDir: set.StoreDir, SyncInterval: set.SyncInterval, SyncAlways: set.SyncAlways, MaxPayload: set.MaxPayload,
		JetStreamMaxStore: set.JetStreamMaxStore, JetStreamMaxMemory: set.JetStreamMaxMemory,
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, NoSigs: true, NoLog: true,
	}
	if set.Cluster != "" {
		o.Cluster = server.ClusterOpts{Name: set.Cluster, Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: set.Advertise, NoAdvertise: true}
	}
	for _, route := range set.Routes {
		u, err := url.Parse(route)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := start(o)
	if err != nil {
		return err
	}
	if err := responses.Encode(addresses{s.clients(), s.routes()}); err != nil {
		return err
	}
	for {
		var q question
		if requests.Decode(&q) != nil {
			return nil // the test has ended
		}
		if q.Shutdown {
			s.stop()
			return responses.Encode(true)
		}
		if err := responses.Encode(s.is(q)); err != nil {
			return err
		}
	}
}

// Pause stops the process of a node, as a machine does whose disk or hypervisor stalls: connections
// stay open, and nothing is answered until [Cluster.Resume] or [Cluster.Kill].
//
// On Linux, Pause returns once the process has stopped.
func (c *Cluster) Pause(i int) { c.signal(i, (*process).pause) }

// Resume undoes [Cluster.Pause].
func (c *Cluster) Resume(i int) { c.signal(i, (*process).resume) }

// signal applies f to the process of a node if it runs.
func (c *Cluster) signal(i int, f func(*process) error) {
	c.t.Helper()
	switch running := c.running(i).(type) {
	case *process:
		f(running) // fails if the process has ended
	case embedded:
		c.t.Fatalf("natstest: node %d is not a separate process", i)
	}
}

// Stutter makes a node slow until end is called: it pauses for the time paused, then runs for the
// time running, and so on. The node may be killed and restarted meanwhile. End resumes the node, and
// may be called again. The end of the test calls it, too.
func (c *Cluster) Stutter(i int, paused, running time.Duration) (end func()) {
	c.t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { // ends with done
		for {
			c.Pause(i)
			if !wait(done, paused) {
				return
			}
			c.Resume(i)
			if !wait(done, running) {
				return
			}
		}
	})
	end = sync.OnceFunc(func() {
		close(done)
		group.Wait()
		c.Resume(i)
	})
	c.t.Cleanup(end)
	return end
}

// wait waits for d. It returns false if done is closed.
func wait(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
