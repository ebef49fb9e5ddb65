package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

var (
	fleetRounds = flag.Int("fleetrounds", 200, "number of rounds of TestRandomFaultsOfFleet")
	fleetSeed   = flag.Uint64("fleetseed", 0, "seed of the first round of TestRandomFaultsOfFleet")
)

// Tasks with random steps, sleeps and input requests end with the results that their journals give,
// although the members of the fleet are cut off, die, drain, close and join again at random, and their
// stores answer late and return outdated records: each
// step is recorded once, each input request has one answer, and the outcome is the same at all
// members. The limit of the tool holds at any time, and tasks run only at members with their
// labels and with the version of their tool, which is removed and added again at times. In some
// rounds, the clocks of the members are set by two hours, and a task ends each process that runs it:
// it fails soon, and no other task fails for it. In others, tasks expire, plain calls use the limit of
// the tool, or tasks that are not restartable run beside the others: they fail with their process,
// also if no other one runs their tool. In the end, no member counts or follows a task any longer.
func TestRandomFaultsOfFleet(t *testing.T) {
	rounds := *fleetRounds
	if testing.Short() {
		rounds = min(rounds, 20)
	}
	seeds := []uint64{3490, 14697} // members that prepare trials passed a permit back and forth without end; see TestInterruptedTrialIsNoDeath
	for round := range rounds {
		seeds = append(seeds, *fleetSeed+uint64(round))
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { // a failure ends the outer test at once
				if t.Failed() {
					t.Logf("-fleetseed %d", seed)
				}
			})
			newRandomFleet(t, seed).test()
		})
	}
}

// randomFleet is a fleet whose members change at random.
type randomFleet struct {
	t        *testing.T
	fleet    *memory.Fleet
	history  *history
	random   *rand.Rand
	cfg      task.Options
	frontEnd bool     // the first process runs no work
	programs sync.Map // by task id
	gauge    *gauge
	limit    int  // of tasks that run at once; 0 for none
	poison   bool // a task ends its processes, and tasks may fail when theirs die
	clocks   bool // the clocks of the members are set
	expires  bool // some tasks expire
	calls    bool // plain calls use the limit of the tool
	divided  bool // the processes, but for the front end, run the tool alone

	chance sync.Mutex // guards random

	mu        sync.Mutex
	processes []*member            // the living ones
	begun     map[string][]*member // those that have begun the work of a task, by its id
	lacking   [8]bool              // processes that do not have the tool in the version of even programs at present
}

const randomLease = 3 * time.Second

func newRandomFleet(t *testing.T, seed uint64) *randomFleet {
	f := &randomFleet{
		t: t, fleet: memory.NewFleet(), history: new(history), random: rand.New(rand.NewPCG(seed, 0)), begun: map[string][]*member{},
		poison: seed%3 == 0, clocks: seed%2 == 1, expires: seed%6 == 2, calls: seed%4 == 3, divided: seed%5 == 1, // which leaves the sequences of the other seeds as they were
	}
	f.frontEnd = f.random.IntN(3) == 0
	f.cfg = task.Options{
		Limits: task.Limits{Rate: -1}, TTL: task.TTL{Unlimited: true}, Recovery: task.Recovery{MaxReruns: -1, ParkAfter: time.Duration(f.random.IntN(3000)+1) * time.Millisecond}, Member: task.Member{Lease: randomLease},
	}
	f.gauge = newGauge()
	if f.limit = f.random.IntN(4); f.limit > 0 {
		f.cfg.Limits.Tool = limitTo("tool", f.limit)
	}
	f.cfg.Limits.Running = max(f.random.IntN(5)-2, 0)
	if f.random.IntN(2) == 0 {
		f.cfg.Recovery.MaxReruns = 1000 // trials, of which none fails its task
	}
	if f.poison {
		f.cfg.Recovery.MaxReruns = 1
	}
	f.cfg.TTL.Default = 24 * time.Hour // more than the clocks are set
	for i := range 2 + f.random.IntN(3) {
		f.processes = append(f.processes, nil)
		f.start(i)
	}
	return f
}

// start starts process i.
func (f *randomFleet) start(i int) {
	m := &member{store: f.fleet.Store()}
	cfg := f.cfg
	if f.frontEnd && i == 0 {
		cfg.Member.Tools = []string{}
	} else if f.divided {
		cfg.Member.Tools = []string{"tool"}
	}
	if i%2 == 1 { // there are at least two processes
		cfg.Member.Labels = []string{"odd"}
	}
	m.labels = cfg.Member.Labels
	store := &racingStore{FleetStore: m.store, history: f.history}
	m.clock, m.racing = &store.ahead, store
	store.set(f.failures())
	cfg.Store = store
	cfg.Recovery.Recover = func(r task.Record) task.Work {
		f.mu.Lock()
		lacking := f.lacking[i]
		f.mu.Unlock()
		if lacking && strings.HasPrefix(r.Durable.Version, "even") {
			return nil
		}
		p, ok := f.programs.Load(r.Durable.Version)
		if !ok {
			f.t.Errorf("unknown program %q", r.Durable.Version)
			return nil
		}
		return f.counted(m, p.(*program))
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	var err error
	if m.Manager, err = task.New(f.t.Context(), cfg); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.close(m) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes[i] = m
}

// below returns a random number in [0, n).
func (f *randomFleet) below(n int) int {
	f.chance.Lock()
	defer f.chance.Unlock()
	return f.random.IntN(n)
}

// failures returns hooks that lose some acknowledgements, offers and results of reads, return
// outdated records and journals, and answer late.
func (f *randomFleet) failures() hooks {
	rate := f.below(10) - 4
	outdated, slow := rand.IntN(20), rand.IntN(6)
	if f.poison {
		outdated, slow = 0, 0 // members that are late may find that their trials count as failed
	}
	fails := func() error {
		if rate > 0 && rand.IntN(100) < rate {
			return memory.ErrCut
		}
		return nil
	}
	late := func() {
		if rand.IntN(100) < slow {
			time.Sleep(rand.N(3 * randomLease))
		}
	}
	return hooks{
		lag: func() time.Duration {
			if rand.IntN(100) < outdated {
				return rand.N(maxLag)
			}
			return 0
		},
		beforeCreate: late,
		beforeUpdate: late,
		afterGet:     func(task.Record) error { late(); return fails() },
		afterUpdate:  func(task.Record) error { late(); return fails() },
		offer:        fails,
		reserve:      fails,
	}
}

// counted returns the work of a program at a member, which counts in the gauge.
func (f *randomFleet) counted(m *member, p *program) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		if len(p.labels) > len(m.labels) {
			f.t.Errorf("work with labels %q runs at a member with labels %q", p.labels, m.labels)
		}
		f.mu.Lock()
		f.begun[run.ID()] = append(f.begun[run.ID()], m)
		f.mu.Unlock()
		if !p.plain {
			defer f.gauge.begin(ctx, run.ID())()
		}
		if p.poison {
			f.endProcess(ctx, m)
			return nil, context.Cause(ctx)
		}
		return p.work(ctx, run)
	}
}

// endProcess is the work of a task that ends its process, sooner than the shortest trial lasts.
func (f *randomFleet) endProcess(ctx context.Context, m *member) {
	select {
	case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
		f.mu.Lock()
		i := slices.Index(f.processes, m)
		f.mu.Unlock()
		if i >= 0 && !m.killed.Load() && m.poisoned.CompareAndSwap(false, true) {
			f.kill(m)
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Millisecond, func() { f.replace(i, m) })
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
}

// replace starts process i after its member has ended, unless that has happened.
func (f *randomFleet) replace(i int, m *member) {
	if m.replaced.CompareAndSwap(false, true) {
		f.start(i)
	}
}

// kill ends the process of a member. Its work notices nothing for a while.
func (f *randomFleet) kill(m *member) {
	m.killed.Store(true)
	m.store.Cut()
	time.AfterFunc(time.Duration(f.below(int(2*randomLease))), func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		m.Close(ended)
	})
}

// close closes a member. If it is cut off, it cannot store outcomes. If it has lost its lease, it
// may not have joined again.
func (f *randomFleet) close(m *member) {
	if m.store.Health() != nil {
		m.killed.Store(true)
	}
	defer func() {
		if m.Stats().Lapsed > 0 {
			m.killed.Store(true)
		}
	}()
	if err := m.Close(context.Background()); err != nil && !strings.Contains(err.Error(), "outcomes were not stored") {
		f.t.Error(err)
	}
}

// any returns a random living member. Random is nil for one that no seed decides.
func (f *randomFleet) any(random *rand.Rand) *member {
	intN := rand.IntN
	if random != nil {
		intN = random.IntN
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.processes[intN(len(f.processes))]
}

func (f *randomFleet) test() {
	var requestors sync.WaitGroup
	end := make(chan struct{})
	for n := range 2 + f.below(5) {
		random := rand.New(rand.NewPCG(f.random.Uint64(), 1))
		p := &program{seed: random.Uint64(), t: f.t, plain: f.divided && n%2 == 1}
		if f.expires && n%2 == 1 {
			p.ttl = new(1000 + int64(p.seed%30_000))
		}
		if random.IntN(3) == 0 && !p.plain {
			p.labels = []string{"odd"}
		}
		name := fmt.Sprint([]string{"even", "odd"}[n%2], " program ", n)
		f.programs.Store(name, p)
		requestors.Go(func() { f.request(random, p, name) })
	}
	if f.poison {
		p := &program{t: f.t, poison: true}
		f.programs.Store("odd poison", p)
		random := rand.New(rand.NewPCG(f.random.Uint64(), 1))
		requestors.Go(func() { f.request(random, p, "odd poison") })
	}
	var faults sync.WaitGroup // they end with the requestors
	faults.Go(func() {
		for range 5 + f.below(20) {
			select {
			case <-time.After(time.Duration(f.below(4000)) * time.Millisecond):
				f.fault()
			case <-end:
				return
			}
		}
	})
	if f.clocks {
		faults.Go(func() {
			for range 10 {
				select {
				case <-time.After(rand.N(10 * time.Second)):
					f.any(nil).clock.Store(int64(rand.IntN(3)-1) * int64(2*time.Hour))
				case <-end:
					return
				}
			}
		})
	}
	if f.calls {
		for range 2 {
			faults.Go(func() {
				for {
					select {
					case <-time.After(rand.N(3 * time.Second)):
						f.call()
					case <-end:
						return
					}
				}
			})
		}
	}
	requestors.Wait()
	close(end)
	faults.Wait()
	time.Sleep(3 * time.Second) // processes that have died start again
	f.mu.Lock()
	processes := slices.Clone(f.processes)
	f.mu.Unlock()
	for i, m := range processes {
		m.clock.Store(0)
		m.racing.set(hooks{})
		m.store.Heal()
		f.setLacking(i, false)
	}
	for r, err := range f.fleet.Store().Scan(f.t.Context()) { // those whose creation was not acknowledged
		if err == nil && !task.Terminal(r.Status) && !f.acknowledged(r.ID) {
			f.any(nil).CancelForOperator(f.t.Context(), r.ID) // which may have been dropped meanwhile
		}
	}
	time.Sleep(10 * time.Minute) // work that was replaced returns
	for r, err := range f.fleet.Store().Scan(f.t.Context()) {
		if err != nil || !task.Terminal(r.Status) && f.acknowledged(r.ID) {
			f.t.Errorf("left: %v %s %s, %v", r.Claim, r.Status, r.ID, err)
		}
	}
	if f.limit > 0 && f.gauge.greatest > f.limit {
		f.t.Errorf("%d tasks at once, the limit is %d", f.gauge.greatest, f.limit)
	}
	f.checkMessages(processes)
	for i, m := range processes {
		if s := m.Stats(); s.Running+s.Queued+s.Parked != 0 {
			f.t.Errorf("process %d at the end: %+v", i, s)
		}
		if left := m.Leftovers(); len(left) > 0 {
			f.t.Errorf("process %d at the end: %s", i, strings.Join(left, "; "))
		}
	}
}

// checkMessages lets a task send messages while requestors wait for its result at all processes.
// Halfway, another process takes the task over. Each requestor receives all messages.
func (f *randomFleet) checkMessages(processes []*member) {
	p := &program{t: f.t, messages: 5}
	f.programs.Store("messages", p)
	creator := processes[f.below(len(processes))]
	created, err := creator.Create(f.t.Context(), task.Request{
		Principal: "alice", Method: "tools/call", Name: "tool", Version: "messages", Restartable: true, Via: gone{}, Work: f.counted(creator, p),
	})
	if err != nil {
		f.t.Error(err)
		return
	}
	var requestors sync.WaitGroup
	for i, m := range processes {
		requestors.Go(func() {
			via := new(peer)
			if out, err := m.Result(f.t.Context(), "alice", created.TaskID, via); err != nil || out.Error != nil {
				f.t.Errorf("process %d: %v, %v", i, out.Error, err)
			}
			got := slices.DeleteFunc(via.received(), func(m string) bool { return !strings.HasPrefix(m, "notifications/second") })
			if sent := int(p.sent.Load()); len(got) != sent {
				f.t.Errorf("process %d: %d messages of %d", i, len(got), sent)
			}
		})
	}
	time.Sleep(time.Duration(p.messages)*time.Second/2 + time.Millisecond)
	if m := processes[f.below(len(processes))]; m.Internals(boundary.Caller{}).Runs("tool") {
		if err := m.Internals(boundary.Caller{}).TakeOver(f.t.Context(), created.TaskID); err != nil {
			f.t.Error(err)
		}
	}
	requestors.Wait()
	time.Sleep(time.Minute)
}

// call makes a plain call of the tool at any member.
func (f *randomFleet) call() {
	m := f.any(nil)
	ctx, cancel := context.WithTimeout(f.t.Context(), rand.N(5*time.Second))
	defer cancel()
	go func() {
		select {
		case <-m.Done(): // the process has ended
			cancel()
		case <-ctx.Done():
		}
	}()
	called, release, err := m.Internals(boundary.Caller{}).Acquire(ctx, "bob", "tool")
	if err != nil {
		return
	}
	defer release()
	defer f.gauge.begin(called, "a call")()
	select {
	case <-time.After(rand.N(4 * time.Second)):
	case <-called.Done():
	}
}

// setLacking removes a version of the tool from process i, or adds it again.
func (f *randomFleet) setLacking(i int, lacking bool) {
	f.mu.Lock()
	f.lacking[i] = lacking
	m := f.processes[i]
	f.mu.Unlock()
	m.ToolsChanged()
}

// acknowledged reports whether Create has returned the task.
func (f *randomFleet) acknowledged(id string) bool {
	_, ok := f.programs.Load(id)
	return ok
}

// fault lets something happen to a process.
func (f *randomFleet) fault() {
	i := f.below(len(f.processes))
	f.mu.Lock()
	m := f.processes[i]
	f.mu.Unlock()
	switch f.below(5) {
	case 4: // upgraded or rolled back
		f.setLacking(i, true)
		time.AfterFunc(time.Duration(f.below(20000))*time.Millisecond, func() { f.setLacking(i, false) })
	case 0, 1: // cut off for a while
		m.store.Cut()
		longest := 3 * randomLease
		if f.poison { // members that return later may find that their trials count as failed
			longest = 2 * randomLease
		}
		time.AfterFunc(time.Duration(f.below(int(longest))), m.store.Heal)
	case 2: // closed, and started again
		if limit := time.Duration(f.below(8000)-4000) * time.Millisecond; limit > 0 {
			ctx, cancel := context.WithTimeout(f.t.Context(), limit)
			if err := m.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !m.poisoned.Load() {
				f.t.Error(err)
			}
			cancel()
		}
		f.close(m)
		f.replace(i, m)
	case 3: // dead, and started again; its work notices nothing for a while
		f.kill(m)
		time.Sleep(time.Duration(f.below(2000)) * time.Millisecond)
		f.replace(i, m)
	}
}

// request creates a task at any member, waits for its result at others, and answers its input
// requests. It may cancel the task.
func (f *randomFleet) request(random *rand.Rand, p *program, name string) {
	t := f.t
	var mu sync.Mutex
	below := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	pause := func(limit int) { time.Sleep(time.Duration(below(limit)) * time.Millisecond) }
	via := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		pause(5000)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return json.RawMessage(fmt.Sprint(rand.Uint32())), nil // another one at each attempt
	}}
	pause(5000)
	var id string
	for id == "" {
		m := f.any(random)
		q := task.Request{Principal: "alice", Method: "tools/call", Name: "tool", Version: name, Restartable: !p.plain, Labels: p.labels, Work: f.counted(m, p)}
		if p.plain {
			q.Name = "plain"
		}
		if p.ttl != nil {
			q.Task = &mcp.TaskMetadata{TTL: p.ttl}
		}
		if created, err := m.Create(t.Context(), q); err == nil {
			id = created.TaskID
		} else if p = (&program{seed: p.seed, labels: p.labels, poison: p.poison, plain: p.plain, ttl: p.ttl, t: t}); true { // the task may exist nevertheless
			name += "'"
			f.programs.Store(name, p)
			pause(1000)
		}
	}
	f.programs.Store(id, p)
	cancel, cancelled := below(8) == 0, false
	for n := 0; ; n++ {
		if n == 20_000 {
			t.Errorf("%s has not ended", name)
			return
		}
		pause(3000)
		if cancel && n == 2 {
			_, err := f.any(random).Cancel(t.Context(), "alice", id, via)
			cancelled = err == nil
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(below(6000))*time.Millisecond)
		out, err := f.any(random).Result(ctx, "alice", id, via)
		stop()
		switch {
		case err != nil && (errors.Is(err, memory.ErrCut) || errors.Is(err, task.ErrClosed) || errors.Is(err, context.DeadlineExceeded)):
			continue
		case p.ttl != nil && (errors.Is(err, task.ErrExpired) || errors.Is(err, task.ErrNotFound)):
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case p.plain && out.Error != nil && strings.Contains(out.Error.Message, "the task was running"): // when its process has ended
		case out.Error != nil && out.Error.Code == task.CodeCancelled && cancel:
		case out.Error != nil && strings.Contains(out.Error.Message, "the task is probably the cause") && f.poison:
			f.mu.Lock()
			runs := f.begun[id]
			f.mu.Unlock()
			if last := runs[len(runs)-1]; len(runs) < 2 || !p.poison && (!last.killed.Load() || last.poisoned.Load()) {
				t.Errorf("%s: %v after %d runs", name, out.Error, len(runs))
			}
			deaths := 0
			for _, m := range runs {
				if m.poisoned.Load() {
					deaths++
				}
			}
			if p.poison && deaths > 8 {
				t.Errorf("%s has ended %d processes", name, deaths)
			}
		case out.Error != nil:
			t.Errorf("%s: %v", name, out.Error)
		case p.poison:
			t.Errorf("%s has the result %s", name, out.Result)
		case cancelled:
			t.Errorf("%s was cancelled and has the result %s", name, out.Result)
		default:
			var got struct{ Answers json.RawMessage }
			if err := json.Unmarshal(out.Result, &got); err != nil {
				t.Error(err)
			}
			if want := p.result(); fmt.Sprintf(`{"answers":%s}`, got.Answers) != want {
				t.Errorf("%s has the result %s, want %s", name, out.Result, want)
			}
		}
		return
	}
}
