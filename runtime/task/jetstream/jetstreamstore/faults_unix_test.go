//go:build unix

package jetstreamstore_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

var (
	faultCount = flag.Int("faults", 12, "number of faults of TestFleetSurvivesFaults")
	faultSeed  = flag.Uint64("faultseed", 0, "seed of TestFleetSurvivesFaults; 0 means a random one")
)

const (
	frontEnds = 2
	workers   = 3
	users     = 12
	// callTime limits each call of a client. A call that reaches it has ended without an answer and
	// without an error, unless it waits for the result of a task.
	callTime = 2 * time.Minute
	// taskTime limits a task, whatever the faults. Only a test that fails reaches it.
	taskTime = 5 * time.Minute
	// rollingEvery is how many faults come between two restarts of everything.
	rollingEvery = 100
	// storeSize is the size of the disk of a server. The sessions have a part of it.
	storeSize = sessionSize + 384<<20
)

// Tasks and sessions of both eras survive random faults: kill -9 and the shutdown of any server of
// the cluster and of its leader, servers that hang or are slow, full disks of one server and of
// all, full streams, partitions of servers and programs, kill -9 of any program, programs that hang
// for longer than their lease or drain, clocks that are set, of servers by up to two minutes and of
// programs by up to four hours, work that ends its process, upgrades and roll-backs of any program
// between two builds that differ in their tools, and a restart of everything. Each acknowledged
// task ends with one result, no recorded step runs again, steps that fail are repeated and undone,
// one answer to each input request counts, tasks continue only in the versions of their tools, a
// task fails only if it should or ends its processes, each call ends with an answer or an error,
// and nothing is left behind.
//
// The servers and the programs are child processes, which end when the test does. Disks need
// namespaces of Linux, and clocks need Linux on amd64. Elsewhere, the test logs that it leaves out
// their faults.
func TestFleetSurvivesFaults(t *testing.T) {
	seed, n := *faultSeed, *faultCount
	if seed == 0 {
		seed = rand.Uint64()
	}
	if testing.Short() {
		n = min(n, 4)
	}
	t.Logf("-faultseed %d -faults %d", seed, n)
	f := newFaultRun(t, seed)
	var group sync.WaitGroup
	for i := range users {
		u := &user{run: f, number: i, random: rand.New(rand.NewPCG(seed, uint64(100+i)))}
		group.Go(u.work) // ends with f.done
	}
	f.cause(n)
	t.Logf("%d faults in %.0f s: %s", n, time.Since(f.begun).Seconds(), f.counted(f.faults))
	f.bothBuilds()
	close(f.done)
	group.Wait()
	t.Logf("%d calls: %s", total(f.calls), f.counted(f.calls))
	t.Logf("%d errors: %s", total(f.errors), f.counted(f.errors))
	f.verifyTasks()
	f.verifyNothingLeft()
}

// faultRun is a fleet under test.
type faultRun struct {
	t       *testing.T
	random  *rand.Rand
	cluster *natstest.Cluster
	disks   []*natstest.Disk // of the servers; nil if the system does not permit them
	ahead   [3]time.Duration // what the clocks of the servers are ahead
	faulty  []string         // kinds of faults that are possible
	js      natsjs.JetStream
	store   *jetstream.Store // of the test, which is not a member
	log     string           // file of what the jobs do
	fronts  []*child
	workers []*child
	url     string // of the balancer
	close   func() // closes the balancer
	begun   time.Time
	done    chan struct{}
	ended   atomic.Int64 // number of tasks that have ended
	stuck   atomic.Bool  // no task ends any longer

	mu       sync.Mutex
	faults   map[string]int // by kind
	calls    map[string]int // by kind
	errors   map[string]int // by text
	answers  map[string]map[string]bool
	outcomes map[string]outcome // by task id
	unsure   int                // tasks that may exist without an acknowledgement
	unclosed int                // sessions that a client may have left open
	killed   map[int]bool       // process ids of programs that the test has killed
}

// outcome is how a task has ended. The result of a cancelled task is "", that of one that has
// failed because its processes have died is doomed, that of a saga whose steps have failed badLuck.
// Signal is the number of the last signal that was sent to it.
type outcome struct {
	tool, name, result string
	signal             int
}

const doomed = "doomed"

func newFaultRun(t *testing.T, seed uint64) *faultRun {
	f := &faultRun{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), log: filepath.Join(t.TempDir(), "jobs"), done: make(chan struct{}),
		faults: map[string]int{}, calls: map[string]int{}, errors: map[string]int{}, answers: map[string]map[string]bool{}, outcomes: map[string]outcome{},
		killed: map[int]bool{},
	}
	if err := os.WriteFile(f.log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.cluster = f.startServers()
	f.js = f.cluster.JetStream(t)
	var err error
	if f.store, err = jetstream.Open(t.Context(), f.js, jetstream.Options{Name: fleetName, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	for i := range frontEnds {
		f.fronts = append(f.fronts, f.newChild(fmt.Sprint("front end ", i), true, i))
	}
	for i := range workers {
		f.workers = append(f.workers, f.newChild(fmt.Sprint("worker ", i), false, i))
	}
	for _, c := range append(slices.Clone(f.fronts), f.workers...) {
		c.start()
	}
	t.Cleanup(func() {
		for _, c := range append(slices.Clone(f.fronts), f.workers...) {
			c.kill()
			if t.Failed() {
				c.printLog()
			}
		}
	})
	for _, c := range append(slices.Clone(f.fronts), f.workers...) {
		c.awaitReady()
	}
	f.balance()
	f.begun = time.Now()
	return f
}

// startServers starts three servers, on disks of their own if that is possible, and finds out which
// faults are possible.
func (f *faultRun) startServers() *natstest.Cluster {
	f.faulty = slices.Concat(nodeFaults, workerFaults, frontFaults)
	leaveOut := func(kind string, why any) {
		f.t.Logf("without faults of %ss: %v", kind, why)
		f.faulty = slices.DeleteFunc(f.faulty, func(each string) bool { return strings.Contains(each, kind) })
	}
	if !natstest.CanSetClock() {
		leaveOut("clock", "the system does not permit to set the clock of a process")
	}
	configure := func(o *server.Options) {}
	for range 3 {
		disk, err := natstest.TryDisk(f.t, storeSize)
		if err != nil {
			f.disks = nil
			leaveOut("disk", err)
			break
		}
		f.disks = append(f.disks, disk)
	}
	if f.disks != nil {
		configure = natstest.StoreOn(f.disks)
	}
	return natstest.RunProcesses(f.t, 3, configure)
}

// balance starts a load balancer. It connects each request to the next front end, or to another one
// if that refuses the connection.
func (f *faultRun) balance() {
	var next atomic.Uint64
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		first := next.Add(1)
		for i := range uint64(len(f.fronts)) {
			var dialer net.Dialer
			if conn, err = dialer.DialContext(ctx, network, f.fronts[(first+i)%uint64(len(f.fronts))].address()); err == nil {
				break
			}
		}
		return conn, err
	}}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host },
	}
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The proxy may still read the body after its response, which a server does not allow.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	f.url = b.URL + "/mcp"
	f.close = func() {
		b.CloseClientConnections()
		b.Close()
	}
	f.t.Cleanup(f.close)
}

// count adds one to a counter.
func (f *faultRun) count(counters map[string]int, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	counters[name]++
}

func (f *faultRun) counted(counters map[string]int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(counters), func(a, b string) int {
		return cmp.Or(counters[b]-counters[a], strings.Compare(a, b))
	})
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprint(counters[name], " ", name))
	}
	return strings.Join(list, ", ")
}

func total(counters map[string]int) (n int) {
	for _, each := range counters {
		n += each
	}
	return n
}

// The kinds of faults, by what they concern.
var (
	nodeFaults = []string{
		"kill -9 server", "shut down server", "isolate server", "pause server", "slow down server",
		"fill disk of server", "fill disks of all servers", "fill stream", "set clock of server",
	}
	workerFaults = []string{
		"kill -9 worker", "drain worker", "cut off worker", "pause worker", "set clock of worker", "upgrade worker", "roll back worker", "poison worker",
	}
	frontFaults = []string{
		"kill -9 front end", "drain front end", "cut off front end", "pause front end", "set clock of front end", "upgrade front end", "roll back front end",
	}
)

// leads are the streams whose leader a fault can concern.
var leads = []string{fleetName + "-0", fleetName + "-0-index", fleetName + "-members", jetstreamstore.DefaultName, jetstreamstore.DefaultName + "-processes"}

// What a clock can be ahead. It is right again after some faults. If the clocks of servers and
// programs are wrong at the same time, sleeps end later by the difference of two servers.
var (
	serverClocks  = []time.Duration{-time.Minute, -20 * time.Second, 0, 20 * time.Second, time.Minute}
	programClocks = []time.Duration{-2 * time.Hour, -5 * time.Minute, -time.Minute, 0, time.Minute, 5 * time.Minute, 2 * time.Hour}
)

const restartAll = "restart everything"

// cause causes n faults. Those of servers, workers and front ends happen at the same time. Kinds
// that concern programs occur three times as often as those that concern servers, which take
// longer. After rollingEvery faults, and once at least, everything is restarted.
func (f *faultRun) cause(n int) {
	ofPrograms := slices.DeleteFunc(slices.Clone(f.faulty), func(kind string) bool { return slices.Contains(nodeFaults, kind) })
	all := slices.Concat(f.faulty, ofPrograms, ofPrograms)
	for n > 0 {
		var queues [3][]string // of faults that happen one after the other
		some := min(n, rollingEvery)
		for i := range some - 1 {
			if i%len(all) == 0 {
				f.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			kind := all[i%len(all)]
			for q, kinds := range [][]string{nodeFaults, workerFaults, frontFaults} {
				if slices.Contains(kinds, kind) {
					queues[q] = append(queues[q], kind)
				}
			}
		}
		var group sync.WaitGroup
		for _, queue := range queues {
			random := rand.New(rand.NewPCG(f.random.Uint64(), 0))
			group.Go(func() { // ends after the last fault of the queue
				for _, kind := range queue {
					f.awaitProgress()
					time.Sleep(randomTime(random, 0, 300*time.Millisecond))
					f.causeOne(kind, random)
				}
			})
		}
		group.Wait()
		f.awaitProgress()
		f.fault(restartAll, "")
		f.restartAll()
		n -= some
	}
}

// fault counts a fault that begins.
func (f *faultRun) fault(kind, what string) {
	f.count(f.faults, kind)
	f.t.Logf("%.1f s, %d tasks have ended: %s %s", time.Since(f.begun).Seconds(), f.ended.Load(), kind, what)
}

func randomTime(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// causeOne causes one fault and ends it. Programs may still be starting then.
func (f *faultRun) causeOne(kind string, random *rand.Rand) {
	node, worker, front := random.IntN(3), f.workers[random.IntN(workers)], f.fronts[random.IntN(frontEnds)]
	child := worker
	if strings.HasSuffix(kind, "front end") {
		child = front
	}
	what := child.p.Name
	if slices.Contains(nodeFaults, kind) {
		what = ""
		if random.IntN(2) == 0 {
			stream := leads[random.IntN(len(leads))]
			node = f.cluster.Leader(stream)
			what = ", leader of " + stream
		}
		what = fmt.Sprint("server ", node, what)
	}
	clocks := programClocks
	if slices.Contains(nodeFaults, kind) {
		clocks = serverClocks
	}
	ahead := clocks[random.IntN(len(clocks))]
	if strings.HasPrefix(kind, "set clock") {
		what += fmt.Sprint(" to ", ahead)
	}
	f.fault(kind, what)
	switch kind {
	case "upgrade worker", "upgrade front end":
		f.replace(child, newBuild)
	case "roll back worker", "roll back front end":
		f.replace(child, oldBuild)
	case "poison worker":
		f.poison(random)
	case "kill -9 server":
		f.cluster.Kill(node)
		time.Sleep(randomTime(random, 0, time.Second))
		f.cluster.Restart(node)
	case "shut down server":
		f.cluster.Shutdown(node)
		time.Sleep(randomTime(random, 0, time.Second))
		f.cluster.Restart(node)
	case "pause server":
		f.cluster.Pause(node)
		time.Sleep(randomTime(random, 0, 2*fleetLease))
		f.cluster.Resume(node)
	case "slow down server":
		end := f.cluster.Stutter(node, randomTime(random, 50*time.Millisecond, time.Second), randomTime(random, 10*time.Millisecond, 200*time.Millisecond))
		time.Sleep(randomTime(random, fleetLease, 2*fleetLease))
		end()
	case "fill disk of server":
		f.fillDisks(random, node)
	case "fill disks of all servers":
		f.fillDisks(random, 0, 1, 2)
	case "fill stream":
		f.fillStream(random)
	case "set clock of server":
		f.setClock(node, ahead)
	case "isolate server":
		f.cluster.Isolate(node)
		time.Sleep(randomTime(random, 0, 3*fleetLease))
		f.cluster.Rejoin(node)
	case "kill -9 worker", "kill -9 front end":
		f.mu.Lock()
		f.killed[child.cmd.Process.Pid] = true
		f.mu.Unlock()
		child.kill()
		time.Sleep(randomTime(random, 0, time.Second))
		child.start()
	case "drain worker", "drain front end":
		child.awaitReady()
		child.drain()
		child.start()
	case "cut off worker", "cut off front end":
		child.link.Cut()
		time.Sleep(randomTime(random, 0, 2*fleetLease))
		child.link.Heal()
	case "pause worker", "pause front end": // it does not know that its lease has ended
		child.signal(syscall.SIGSTOP)
		time.Sleep(randomTime(random, fleetLease+time.Second, 2*fleetLease))
		child.signal(syscall.SIGCONT)
	case "set clock of worker", "set clock of front end":
		child.clock.Step(ahead - child.ahead)
		child.ahead = ahead
	default:
		panic(kind)
	}
}

// fillDisks fills the disks of servers for some time. Then it restarts them, which may have
// disabled JetStream. A server may be killed while its disk is full.
func (f *faultRun) fillDisks(random *rand.Rand, nodes ...int) {
	for _, i := range nodes {
		f.disks[i].Fill()
	}
	time.Sleep(randomTime(random, 0, 2*fleetLease))
	for _, i := range nodes {
		if random.IntN(2) == 0 {
			f.cluster.Kill(i)
		}
		f.disks[i].Free()
		f.cluster.Kill(i)
		f.cluster.Restart(i)
	}
}

// fillStream leaves little room in a stream of tasks for some time. The stream first refuses new
// tasks, and then all writes.
func (f *faultRun) fillStream(random *rand.Rand) {
	name := leads[random.IntN(2)]
	f.limitStream(name, random.Int64N(64<<10))
	time.Sleep(randomTime(random, fleetLease, 3*fleetLease))
	f.limitStream(name, -1)
}

// limitStream limits the size of a stream to what it has, and the bytes that are left to it. If
// these are negative, it removes the limit.
func (f *faultRun) limitStream(name string, left int64) {
	limit := func() error {
		ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
		defer cancel()
		stream, err := f.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		if config.MaxBytes = -1; left >= 0 {
			config.MaxBytes = int64(stream.CachedInfo().State.Bytes) + left
		}
		_, err = f.js.UpdateStream(ctx, config)
		return err
	}
	for deadline := time.Now().Add(taskTime); ; time.Sleep(100 * time.Millisecond) { // the stream may have no leader
		err := limit()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Errorf("limit of stream %s: %v", name, err)
			return
		}
	}
}

// replace replaces the process of a program by one of a build.
func (f *faultRun) replace(c *child, build string) {
	c.awaitReady()
	c.drain()
	c.p.Build = build
	c.start()
}

// bothBuilds sees to it that there is a worker of each build, so that all tasks can end.
func (f *faultRun) bothBuilds() {
	for _, build := range []string{oldBuild, newBuild} {
		if !slices.ContainsFunc(f.workers, func(c *child) bool { return c.p.Build == build }) {
			f.replace(f.workers[0], build)
		}
	}
}

// poison creates a task that ends each process that runs it, and starts the workers again, until
// the task has failed.
func (f *faultRun) poison(random *rand.Rand) {
	for _, c := range f.workers {
		c.awaitReady()
	}
	if err := os.WriteFile(f.poisonFile(), nil, 0o600); err != nil {
		f.t.Error(err)
		return
	}
	ended := make(chan struct{})
	go func() { // ends with the task
		defer close(ended)
		u := &user{run: f, number: users, random: random}
		defer func() {
			u.drop(0)
			u.drop(1)
		}()
		var id string
		for ok := false; !ok; {
			id, ok = u.start(random.IntN(2), "poison", "poison")
		}
		if u.await(random.IntN(2), id) != doomed {
			f.t.Errorf("task %s has not ended its processes", id)
		}
	}()
	deaths := 0
	for running := true; running; {
		select {
		case <-ended:
			running = false
			if err := os.Remove(f.poisonFile()); err != nil {
				f.t.Error(err)
			}
			time.Sleep(100 * time.Millisecond) // a task may have seen the file
		case <-time.After(20 * time.Millisecond):
		}
		for _, c := range f.workers {
			deaths += c.revive()
		}
	}
	f.t.Logf("%.1f s: %d workers have died of poison", time.Since(f.begun).Seconds(), deaths)
}

// poisonFile is the file that makes tasks end their process.
func (f *faultRun) poisonFile() string { return f.log + ".poison" }

// setClock sets the clock of a server.
func (f *faultRun) setClock(node int, ahead time.Duration) {
	f.cluster.StepClock(node, ahead-f.ahead[node])
	f.ahead[node] = ahead
}

// restartAll restarts all servers, all workers and all front ends, each one after the other.
func (f *faultRun) restartAll() {
	var group sync.WaitGroup
	for _, children := range [][]*child{f.workers, f.fronts} {
		group.Go(func() {
			for _, c := range children {
				c.awaitReady()
				c.drain()
				c.start()
				c.awaitReady()
			}
		})
	}
	for i := range 3 {
		f.restartServer(i)
	}
	group.Wait()
}

// restartServer restarts a server and waits until it has all data.
func (f *faultRun) restartServer(i int) {
	f.cluster.Shutdown(i)
	f.cluster.Restart(i)
	for _, stream := range leads {
		f.cluster.Current(stream)
	}
}

// awaitProgress waits until a task ends.
func (f *faultRun) awaitProgress() {
	before := f.ended.Load()
	for deadline := time.Now().Add(taskTime); f.ended.Load() == before && !f.stuck.Load(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Errorf("no task has ended for %v", taskTime)
			f.stuck.Store(true)
		}
	}
}

// child is a program of the fleet.
type child struct {
	f    *faultRun
	p    program
	link *natstest.Link // to the servers
	// clock is nil if it cannot be set.
	clock *natstest.Clock
	ahead time.Duration // what it is ahead

	cmd    *exec.Cmd
	stdin  io.Closer
	ready  chan struct{} // closed when it serves
	exited chan error    // receives the end of the process

	mu    sync.Mutex
	where string // address at which the latest process has served
}

// newChild returns the i-th front end or worker. The first has the old build, the second the new
// one.
func (f *faultRun) newChild(name string, front bool, i int) *child {
	build := []string{oldBuild, newBuild}[i%2]
	c := &child{f: f, p: program{Name: name, Front: front, Build: build, Log: f.log, Poison: f.poisonFile()}, where: "127.0.0.1:1"}
	c.p.NATS, c.link = f.cluster.Listen()
	if natstest.CanSetClock() {
		c.clock = natstest.NewClock(f.t)
	}
	return c
}

// errors is the file with the standard error of all processes of the program.
func (c *child) errors() string { return c.f.log + "." + strings.ReplaceAll(c.p.Name, " ", "-") }

func (c *child) start() {
	text, err := json.Marshal(c.p)
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0])
	natstest.EndWithTest(cmd)
	cmd.Env = append(os.Environ(), envProgram+"="+string(text))
	if c.clock != nil {
		cmd.Env = append(cmd.Env, c.clock.Env())
	}
	stderr, err := os.OpenFile(c.errors(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.f.t.Error(err)
		return
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.f.t.Error(err)
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		c.f.t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		c.f.t.Error(err)
		return
	}
	ready, exited := make(chan struct{}), make(chan error, 1)
	c.cmd, c.stdin, c.ready, c.exited = cmd, stdin, ready, exited
	go func() { // ends with the process
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if where, ok := strings.CutPrefix(lines.Text(), servingLine+"http://"); ok {
				c.mu.Lock()
				c.where = strings.TrimSuffix(where, "/mcp")
				c.mu.Unlock()
				close(ready)
			} else if lines.Text() == readyLine {
				close(ready)
			}
		}
		exited <- cmd.Wait()
	}()
}

// address returns the address at which the program serves, or has served.
func (c *child) address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.where
}

func (c *child) awaitReady() {
	select {
	case <-c.ready:
	case err := <-c.exited:
		c.exited <- err
		c.f.t.Errorf("%s has ended: %v", c.p.Name, err)
	case <-time.After(taskTime):
		c.f.t.Errorf("%s does not serve", c.p.Name)
	}
}

func (c *child) signal(s os.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil {
		c.f.t.Errorf("%s: %v", c.p.Name, err)
	}
}

// kill ends the process with SIGKILL.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.exited
	c.stdin.Close()
	c.exited <- nil
}

// revive starts the program again if its process has ended, and returns 1 then.
func (c *child) revive() int {
	select {
	case <-c.exited:
		c.stdin.Close()
		c.start()
		return 1
	default:
		return 0
	}
}

// drain ends the process with SIGTERM, and checks that it leaves no goroutine.
func (c *child) drain() {
	c.signal(syscall.SIGTERM)
	select {
	case err := <-c.exited:
		if err != nil {
			c.f.t.Errorf("%s has ended: %v", c.p.Name, err)
		}
		c.stdin.Close()
		c.exited <- nil
	case <-time.After(taskTime):
		c.f.t.Errorf("%s does not end", c.p.Name)
	}
}

// printLog prints the end of the standard error.
func (c *child) printLog() {
	text, err := os.ReadFile(c.errors())
	if err != nil {
		return
	}
	c.f.t.Logf("standard error of %s, its end:\n%s", c.p.Name, text[max(0, len(text)-8000):])
}

// user is the user of two clients, one of each era.
type user struct {
	run     *faultRun
	number  int
	random  *rand.Rand
	calls   int
	clients [2]*client.Client // with sessions and without
}

// work makes calls until the run is done.
func (u *user) work() {
	defer func() {
		for era := range u.clients {
			u.drop(era)
		}
	}()
	for {
		select {
		case <-u.run.done:
			return
		default:
		}
		u.calls++
		name := fmt.Sprintf("%d-%d", u.number, u.calls)
		era := u.random.IntN(2)
		switch u.random.IntN(8) {
		case 0:
			u.plain(era, "echo", name, name)
		case 1:
			u.plain(era, "ask", name, name+" "+name+"/")
		case 2:
			u.plain(era, "pay", name, name+" "+name+"/")
		default:
			u.job(era, u.tool(), name)
		}
	}
}

// get returns the client of an era. It connects first if there is none, and returns nil if that
// fails.
func (u *user) get(era int) *client.Client {
	if u.clients[era] != nil {
		return u.clients[era]
	}
	o := client.Options{Input: client.Input{Fill: u.fill}, Limits: client.Limits{InputRequests: -1}, Session: session.Options{Logger: slog.New(slog.DiscardHandler)}}
	o.HTTP.Header = http.Header{"Authorization": {"ann"}}
	o.HTTP.Retries.Delay, o.HTTP.Retries.MaxDelay = 20*time.Millisecond, time.Second
	o.Session.Revisions = [][]mcp.Revision{session.Revisions(), session.ModernRevisions()}[era]
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) {
		u.run.count(u.run.errors, "session lost and opened again")
		u.run.leaveSession()
	}
	ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
	defer cancel()
	c, err := client.Dial(ctx, u.run.url, &o)
	if err != nil {
		u.failed(ctx, "dial", err)
		u.run.leaveSession()
		return nil
	}
	u.clients[era] = c
	return c
}

// leaveSession counts a session that a client may have left open.
func (f *faultRun) leaveSession() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unclosed++
}

// drop closes the client of an era. Faults may keep it from ending its session.
func (u *user) drop(era int) {
	if u.clients[era] == nil {
		return
	}
	u.clients[era].Close()
	u.clients[era] = nil
	select {
	case <-u.run.done:
	default:
		u.run.leaveSession()
	}
}

// fill answers an input request. The answer begins with the message, and no other answer is equal.
func (u *user) fill(ctx context.Context, r *client.FormRequest) (*mcp.ElicitResult, error) {
	f := u.run
	f.mu.Lock()
	given := f.answers[r.Message]
	if given == nil {
		given = map[string]bool{}
		f.answers[r.Message] = given
	}
	text := fmt.Sprintf("%s/%d", r.Message, len(given)+1)
	given[text] = true
	f.mu.Unlock()
	select {
	case <-time.After(rand.N(2 * parkAfter)):
	case <-ctx.Done():
	}
	return client.Accept(map[string]any{"Answer": text})
}

// failed counts the error of a call. An error that is not clear fails the test: that of a call
// whose time is over.
func (u *user) failed(ctx context.Context, call string, err error) {
	// A call for a result waits for as long as the server keeps the task.
	if ctx.Err() != nil && u.run.t.Context().Err() == nil && call != "result" {
		u.run.t.Errorf("user %d: %s has ended neither with an answer nor with an error", u.number, call)
	}
	u.run.count(u.run.errors, call+": "+anonymous(err))
	time.Sleep(50 * time.Millisecond) // the fleet may be out of reach
}

// number is a number in the text of an error, except for the code of an error of JSON-RPC.
var number = regexp.MustCompile(`([^-])\b\d+\b`)

// anonymous returns the text of an error without numbers, so that equal ones are counted together.
func anonymous(err error) string { return number.ReplaceAllString(err.Error(), "${1}N") }

// plain calls a tool that is no task. Its text begins with want.
func (u *user) plain(era int, tool, name, want string) {
	c := u.get(era)
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
	defer cancel()
	u.run.count(u.run.calls, tool)
	result, err := c.CallTool(ctx, tool, named{name})
	if err == nil {
		text, err := client.Text(result)
		if err == nil && strings.HasPrefix(text, want) {
			return
		}
		u.failed(ctx, tool, fmt.Errorf("result: %w", err))
		if err == nil {
			u.run.t.Errorf("%s of %s returns %q", tool, name, text)
		}
		return
	}
	u.failed(ctx, tool, err)
	if tool == "pay" { // it may have become a task
		u.run.mu.Lock()
		u.run.unsure++
		u.run.mu.Unlock()
	}
	u.lose(era, err)
}

// lose closes a client after an error, always if its session has ended.
func (u *user) lose(era int, err error) {
	if errors.Is(err, session.ErrClosed) || u.random.IntN(2) == 0 {
		u.drop(era)
	}
}

// tool returns the tool of the next task. Some users only create tasks that all workers run, so
// that some tasks end whatever the builds of the workers are.
func (u *user) tool() string {
	if u.number%2 == 0 {
		return "job"
	}
	return []string{"saga", "saga", "signalled", "choice", "choice", "strict", "lenient", "removed", "added"}[u.random.IntN(9)]
}

// start creates a task of a tool. Ok is false if that fails.
func (u *user) start(era int, tool, name string) (id string, ok bool) {
	c := u.get(era)
	if c == nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
	defer cancel()
	u.run.count(u.run.calls, tool)
	h, err := c.StartTool(ctx, tool, named{name}, requestor.Progress())
	if err != nil {
		u.failed(ctx, tool, err)
		if !strings.Contains(err.Error(), "unknown to") { // of the server, or of the client by its list
			u.run.mu.Lock()
			u.run.unsure++
			u.run.mu.Unlock()
			u.lose(era, err)
		} else if tool != "removed" && tool != "added" {
			u.run.t.Errorf("a front end does not know the tool %s", tool)
		}
		return "", false
	}
	if h.ID() == "" {
		u.run.t.Errorf("%s %s is no task", tool, name)
		return "", false
	}
	return h.ID(), true
}

// job creates a task and sees its end: over the client that has created it, over another one, over
// two at once, or after it was cancelled.
func (u *user) job(era int, tool, name string) {
	id, ok := u.start(era, tool, name)
	if !ok {
		return
	}
	defer u.run.ended.Add(1)
	end, sent, cancelled := outcome{tool: tool, name: name}, false, false
	switch u.random.IntN(8) {
	case 0:
		time.Sleep(randomTime(u.random, 0, time.Second))
		sent, cancelled = true, u.cancel(1-era, id)
	case 1, 2:
		u.drop(era)
	case 3, 4:
		era = 1 - era
	case 5:
		if other := u.get(1 - era); other != nil {
			beside := make(chan string, 1)
			go func() { // ends with the call
				beside <- u.result(other, id)
			}()
			defer func() {
				if text := <-beside; text != "" && text != end.result {
					u.run.t.Errorf("task %s has ended with %q, for another client with %q", id, end.result, text)
				}
			}()
		}
	}
	switch {
	case tool == "signalled":
		end.signal = u.signals(id, 2)
	case tool == "choice" && u.random.IntN(2) == 0:
		end.signal = u.signals(id, 1)
	}
	end.result = u.await(era, id)
	if again := u.await(1-era, id); again != end.result {
		u.run.t.Errorf("task %s has ended with %q, later with %q", id, end.result, again)
	}
	if cancelled && end.result != "" {
		u.run.t.Errorf("task %s has ended with %q after it was cancelled", id, end.result)
	}
	if !sent && end.result == "" {
		u.run.t.Errorf("task %s ends as cancelled, but was not cancelled", id)
	}
	u.run.mu.Lock()
	defer u.run.mu.Unlock()
	u.run.outcomes[id] = end
}

// signals sends signals to a task until as many as wanted were sent for sure, or the task has ended.
// It returns the number of the last one, or 0 if the task has ended.
func (u *user) signals(id string, wanted int) (last int) {
	for n, sent := 1, 0; ; n++ {
		time.Sleep(randomTime(u.random, 0, 2*parkAfter))
		era := u.random.IntN(2)
		c := u.get(era)
		if c == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
		u.run.count(u.run.calls, "signal")
		result, err := c.CallTool(ctx, "signal", numbered{id, n})
		text := ""
		if err == nil {
			text, err = client.Text(result)
		}
		if err != nil {
			u.failed(ctx, "signal", err)
			u.lose(era, err)
		}
		cancel()
		if text == signalLate {
			return 0
		}
		if err == nil {
			sent++
		}
		if sent == wanted || u.run.stuck.Load() {
			return n
		}
	}
}

// cancel cancels a task, and reports whether the task is cancelled for sure.
func (u *user) cancel(era int, id string) bool {
	c := u.get(era)
	if c == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
	defer cancel()
	u.run.count(u.run.calls, "cancel")
	state, err := c.AttachTool(id).Cancel(ctx)
	if err != nil {
		u.failed(ctx, "cancel", err)
		u.lose(era, err)
	}
	return err == nil && state.Status == mcp.TaskStatusCancelled
}

// result waits for the result of a task once. It returns "" if there is none.
func (u *user) result(c *client.Client, id string) string {
	ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
	defer cancel()
	u.run.count(u.run.calls, "result")
	result, err := c.AttachTool(id).Result(ctx)
	if err != nil {
		if !errors.Is(err, task.ErrCancelled) {
			u.failed(ctx, "result", err)
		}
		return ""
	}
	return u.run.text(id, result)
}

// text returns the text of the result of a task.
func (f *faultRun) text(id string, result *mcp.CallToolResult) string {
	text, err := client.Text(result)
	if err != nil && strings.Contains(err.Error(), badLuck) {
		return badLuck
	}
	if err != nil {
		f.t.Errorf("task %s has failed: %v", id, err)
	}
	return text
}

// await waits for the result of a task, over several clients of an era if need be. It returns "" if
// the task was cancelled, and doomed if its processes have died.
func (u *user) await(era int, id string) string {
	for deadline := time.Now().Add(taskTime); ; {
		if time.Now().After(deadline) {
			r, err := u.run.store.Get(u.run.t.Context(), id)
			u.run.t.Errorf("task %s does not end: %+v, %v", id, r, err)
			return ""
		}
		c := u.get(era)
		if c == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(u.run.t.Context(), callTime)
		u.run.count(u.run.calls, "result")
		result, err := c.AttachTool(id).Result(ctx)
		if err == nil {
			cancel()
			return u.run.text(id, result)
		}
		if errors.Is(err, task.ErrCancelled) {
			cancel()
			return ""
		}
		if strings.Contains(err.Error(), "the task is probably the cause") {
			cancel()
			return doomed
		}
		if jsonrpc.CodeOf(err) == jsonrpc.CodeInvalidParams {
			u.run.t.Errorf("task %s is lost: %v", id, err)
			cancel()
			return ""
		}
		u.failed(ctx, "result", err)
		cancel()
		u.lose(era, err)
	}
}

// verifyTasks compares the outcomes with what the clients have answered, with what the jobs have
// logged, and with the store.
func (f *faultRun) verifyTasks() {
	for id, end := range f.outcomes {
		if end.tool != "saga" || end.result != "" {
			continue
		}
		for deadline := time.Now().Add(taskTime); ; time.Sleep(50 * time.Millisecond) { // until it is undone
			r, err := f.store.Get(f.t.Context(), id)
			if err == nil && task.Terminal(r.Status) {
				break
			}
			if time.Now().After(deadline) {
				f.t.Errorf("cancelled task %s is not undone: %+v, %v", id, r, err)
				break
			}
		}
	}
	file, err := os.Open(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	type step struct {
		task   string
		number int
	}
	type record struct {
		life
		line int
	}
	values := map[step]string{}    // recorded, by any life
	records := map[step][]record{} // by a life that has run the step
	type attempt struct {
		life life
		step step
	}
	running := map[attempt]bool{}    // steps that a life has run
	attempts := map[step]int{}       // executions of a step
	keys := map[step]string{}        // idempotency keys
	undos := map[step]int{}          // executions of each undo that is registered
	answers := map[string]string{}   // by task
	begins := map[string][]logLine{} // by task
	lives, steps, runs, answered := 0, 0, 0, 0
	lines := bufio.NewScanner(file)
	type execution struct {
		step
		record
	}
	var executions []execution
	sameKey := func(at step, key string) {
		if known, ok := keys[at]; key == "" || ok && known != key {
			f.t.Errorf("step %d of task %s has the idempotency keys %q and %q", at.number, at.task, known, key)
		}
		keys[at] = key
	}
	for n := 1; lines.Scan(); n++ {
		l, err := parseLine(lines.Text())
		if err != nil {
			f.t.Fatal(err)
		}
		at := step{l.task, l.step}
		switch l.event {
		case logBegin:
			lives++
			begins[l.task] = append(begins[l.task], l)
		case logRun:
			runs++
			attempts[at]++
			running[attempt{l.life, at}] = true
			sameKey(at, l.value)
			executions = append(executions, execution{at, record{l.life, n}})
		case logRecorded:
			if values[at] == "" {
				steps++
				values[at] = l.value
			}
			if values[at] != l.value {
				f.t.Errorf("line %d: step %d of task %s is recorded as %q and as %q", n, l.step, l.task, values[at], l.value)
			}
			if a := (attempt{l.life, at}); running[a] {
				records[at] = append(records[at], record{l.life, n})
				delete(running, a)
			}
		case logRegistered:
			undos[at] += 0
		case logUndo:
			undos[at]++
			sameKey(step{l.task, -1 - l.step}, l.value)
		case logAnswer:
			if answers[l.task] == "" {
				answered++
				answers[l.task] = l.value
			}
			if answers[l.task] != l.value {
				f.t.Errorf("line %d: task %s is answered with %q and with %q", n, l.task, answers[l.task], l.value)
			}
		}
	}
	for _, x := range executions {
		for _, r := range records[x.step] {
			if r.Epoch < x.Epoch || r.Epoch == x.Epoch && r.line < x.line {
				f.t.Errorf("line %d: step %d of task %s runs again, line %d has its result", x.line, x.number, x.task, r.line)
			}
		}
	}
	cancelled, dead, undone, signalled, late, asked := 0, 0, 0, 0, 0, 0
	chosen := map[string]int{} // what was the first event of choices
	for id, end := range f.outcomes {
		slices.SortStableFunc(begins[id], func(a, b logLine) int { return cmp.Compare(a.life.Epoch, b.life.Epoch) })
		for _, l := range begins[id] {
			if !mayFollow(end.tool, begins[id][0].value, l.value) {
				f.t.Errorf("task %s of the tool %s has begun in build %q, and runs in build %q", id, end.tool, begins[id][0].value, l.value)
			}
		}
		if end.result == doomed {
			// The end of a process during the trial of a task fails the task, also if the test has
			// killed the process.
			if runs := begins[id]; len(runs) < 2 || !f.killed[runs[len(runs)-1].step] {
				f.t.Errorf("task %s has failed, but has not ended its process: %v", id, runs)
			}
			dead++
			continue
		}
		// A step runs once more for each claim of the task at most. The functions of undos have no
		// errors.
		claims := map[uint64]bool{}
		for _, l := range begins[id] {
			claims[l.life.Epoch] = true
		}
		tries, count := 1, jobSteps
		switch end.tool {
		case "saga":
			tries, count = sagaTries, sagaSteps
		case "signalled":
			count = 2
		case "choice":
			count = choiceSteps
		}
		for i := range count {
			at := step{id, i}
			if n := attempts[at]; n >= tries+len(claims) || values[at] == badLuck && n < tries {
				f.t.Errorf("step %d of task %s has run %d times with %d claims; its result is %q", i, id, n, len(claims), values[at])
			}
			n, registered := undos[at]
			if fails := end.result == "" || end.result == badLuck; registered && fails == (n == 0) || n > len(claims) {
				f.t.Errorf("undo %d of task %s has run %d times with %d claims; its result is %q", i, id, n, len(claims), end.result)
			}
		}
		if end.result == badLuck {
			if values[step{id, 0}] != badLuck && values[step{id, 1}] != badLuck {
				f.t.Errorf("task %s has failed without a step that has", id)
			}
			undone++
			continue
		}
		if end.result == "" {
			cancelled++
			continue
		}
		var got jobResult
		if err := json.Unmarshal([]byte(end.result), &got); err != nil || got.Name != end.name || len(got.Steps) != count {
			f.t.Errorf("task %s (%s) ends with %q", id, end.name, end.result)
			continue
		}
		for i, value := range got.Steps {
			if values[step{id, i}] != value {
				f.t.Errorf("task %s ends with %q as step %d, which is recorded as %q", id, value, i, values[step{id, i}])
			}
		}
		if end.tool == "signalled" {
			var first, second int
			if _, err := fmt.Sscan(got.Steps[0]+" "+got.Steps[1], &first, &second); err != nil || first < 1 || first >= second || end.signal > 0 && second > end.signal {
				f.t.Errorf("task %s has received the signals %v of %d", id, got.Steps, end.signal)
			}
			signalled++
			continue
		}
		if end.tool == "choice" {
			name, accepted := strings.CutPrefix(got.Answer, "accept/")
			if answers[id] != got.Answer || accepted && !f.answers[end.name][name] {
				f.t.Errorf("task %s has ended with %q, %q was first", id, got.Answer, answers[id])
			}
			chosen[strings.TrimRight(strings.SplitN(got.Answer, "/", 2)[0], " 0123456789")]++
			continue
		}
		if given := "accept/" + got.Answer; got.Answer == timedOut && end.tool == "saga" {
			late++
			if answers[id] != timedOut {
				f.t.Errorf("task %s has the answer %q, its job got none", id, answers[id])
			}
			continue
		} else if !f.answers[end.name][got.Answer] || answers[id] != given {
			f.t.Errorf("task %s has the answer %q, its job got %q, the clients gave %v", id, got.Answer, answers[id], f.answers[end.name])
		}
		asked += len(f.answers[end.name])
		r, err := f.store.Get(f.t.Context(), id)
		if err != nil || !bytes.Contains(r.Result, []byte(got.Steps[0])) || !bytes.Contains(r.Result, []byte(got.Answer)) {
			f.t.Errorf("task %s in the store: %+v, %v", id, r, err)
		}
	}
	f.t.Logf("%d tasks have ended, %d of them cancelled, %d failed; the test has killed %d during their trials; %d creations have failed", len(f.outcomes), cancelled, undone, dead, f.unsure)
	f.t.Logf("%d steps are recorded, their functions were called %d times in %d runs of jobs; %d input requests of completed tasks were answered %d times, %d answers counted and %d timed out",
		steps, runs, lives, len(f.outcomes)-cancelled-dead-undone-signalled-total(chosen), asked, answered, late)
	f.t.Logf("first events of choices: %v", chosen)
}

// verifyNothingLeft ends all programs, drops all tasks as if they had expired, and checks that no
// process, no goroutine and no message is left.
func (f *faultRun) verifyNothingLeft() {
	for _, c := range append(slices.Clone(f.fronts), f.workers...) {
		c.awaitReady()
		c.drain()
	}
	f.close()
	ctx, cancel := context.WithTimeout(f.t.Context(), taskTime)
	defer cancel()
	for {
		dropped, _, err := f.store.Sweep(ctx, time.Now().Add(2*taskTTL), 1000)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(dropped) == 0 {
			break
		}
	}
	orphans, err := f.store.RemoveOrphans(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	prefix := fleetName + ".0."
	if n := f.messages(ctx, fleetName+"-0", prefix+"r.>") + f.messages(ctx, fleetName+"-0", prefix+"p.>"); n > 0 {
		f.t.Errorf("%d messages of tasks are left", n)
	}
	// Entries without a task may be those of a task that is being created or claimed. They are
	// removed later.
	entries := f.messages(ctx, fleetName+"-0-index", ">")
	if entries > 2*f.unsure {
		f.t.Errorf("%d entries of indexes are left, and %d creations have failed", entries, f.unsure)
	}
	held := f.messages(ctx, fleetName+"-0", prefix+"h.>") - f.messages(ctx, fleetName+"-0", prefix+"h._.*")
	if held > f.unsure+total(f.faults) {
		f.t.Errorf("%d entries of holders are left, and %d creations have failed", held, f.unsure)
	}
	open := f.messages(ctx, jetstreamstore.DefaultName, jetstreamstore.DefaultName+".s.*.o")
	if open > f.unclosed {
		f.t.Errorf("%d sessions are left, and clients have left %d open at most", open, f.unclosed)
	}
	f.t.Logf("left until they expire: %d messages of the store, %d entries of indexes, %d entries of holders, %d sessions", orphans, entries, held, open)
	// Messages from the time of a clock that was ahead expire now.
	if f.faults["set clock of server"] > 0 {
		for i := range 3 {
			f.setClock(i, 2*time.Hour)
			f.restartServer(i)
		}
	}
	wait(f.t, "change of the stream of sessions", func() bool { // its leader may be new
		_, err := jetstreamstore.Open(ctx, f.js, jetstreamstore.Options{Replicas: 3, MaxAge: time.Second, MaxBytes: sessionSize})
		return err == nil
	})
	wait(f.t, "expiry of all messages of sessions", func() bool { return f.messages(ctx, jetstreamstore.DefaultName, ">") == 0 })
	wait(f.t, "end of all members", func() bool { return f.members(ctx) == 0 })
	f.store.Close()
	if err := leftGoroutines(); err != nil {
		f.t.Error(err)
	}
}

// members returns the number of members that are alive. For some time, JetStream has a marker
// without data in the place of each message that has expired.
func (f *faultRun) members(ctx context.Context) (n int) {
	stream, err := f.js.Stream(ctx, fleetName+"-members")
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := stream.Info(ctx, natsjs.WithSubjectFilter(">"))
	if err != nil {
		f.t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		if len(m.Data) > 0 {
			n++
		}
	}
	return n
}

// messages returns the number of messages of a stream with a subject.
func (f *faultRun) messages(ctx context.Context, name, subject string) (n int) {
	stream, err := f.js.Stream(ctx, name)
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := stream.Info(ctx, natsjs.WithSubjectFilter(subject))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, each := range info.State.Subjects {
		n += int(each)
	}
	return n
}
