package debugpage

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Values of the query parameter status, in addition to the statuses of tasks.
const (
	statusLive = "live" // tasks that are not terminal; the default
	statusAll  = "all"
)

var statuses = [...]mcp.TaskStatus{
	mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled,
}

// query selects the tasks of a view of the list.
type query struct {
	status string
	owner  *string   // nil for all owners; "" is an owner, too
	holder *string   // ID of the member that holds the tasks, "" for none; nil for all
	newest bool      // newest first
	paused bool      // the page does not refresh itself
	after  *position // the page starts after this position; nil for the first page
}

// position is the position of a task in the list, which is ordered by age and then by id.
type position struct {
	created int64 // in microseconds since 1970
	id      string
}

func positionOf(r *task.Record) position { return position{r.Created.UnixMicro(), r.ID} }

func (q *query) compare(a, b position) int {
	c := cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.id, b.id))
	if q.newest {
		return -c
	}
	return c
}

// parseQuery parses the parameters of a URL. ok is false if they are invalid.
func parseQuery(v url.Values) (q query, ok bool) {
	q.status = cmp.Or(v.Get("status"), statusLive)
	if q.status != statusLive && q.status != statusAll && !slices.Contains(statuses[:], mcp.TaskStatus(q.status)) {
		return q, false
	}
	if v.Has("owner") {
		q.owner = new(v.Get("owner"))
	}
	if v.Has("holder") {
		q.holder = new(v.Get("holder"))
	}
	q.newest = v.Get("order") == "newest"
	q.paused = v.Get("refresh") == "off"
	if after := v.Get("after"); after != "" {
		created, id, found := strings.Cut(after, ".")
		n, err := strconv.ParseInt(created, 10, 64)
		if !found || err != nil {
			return q, false
		}
		q.after = &position{n, id}
	}
	return q, true
}

// link returns the URL of the view, relative to the URL of any other view.
func (q query) link() string {
	v := url.Values{"status": {q.status}}
	if q.owner != nil {
		v.Set("owner", *q.owner)
	}
	if q.holder != nil {
		v.Set("holder", *q.holder)
	}
	if q.newest {
		v.Set("order", "newest")
	}
	if q.paused {
		v.Set("refresh", "off")
	}
	if q.after != nil {
		v.Set("after", strconv.FormatInt(q.after.created, 10)+"."+q.after.id)
	}
	return "?" + v.Encode()
}

func (q query) withStatus(s string) query   { q.status, q.after = s, nil; return q }
func (q query) withPause(paused bool) query { q.paused = paused; return q }
func (q query) withOwner(o *string) query   { q.owner, q.after = o, nil; return q }
func (q query) withHolder(h *string) query  { q.holder, q.after = h, nil; return q }
func (q query) withOrder(newest bool) query {
	q.newest, q.after = newest, nil
	return q
}

func (q *query) matches(r *task.Record) bool {
	if q.owner != nil && *q.owner != r.Owner {
		return false
	}
	if q.holder != nil && (*q.holder != r.Claim.Member || task.Terminal(r.Status)) {
		return false
	}
	switch q.status {
	case statusAll:
		return true
	case statusLive:
		return !task.Terminal(r.Status)
	}
	return q.status == string(r.Status)
}

// group is the sum over the tasks with a common status or owner.
type group struct {
	Count, Live int
	Bytes       int64
	Oldest      time.Time // creation of the oldest task
}

func (g *group) add(r *task.Record) {
	if g.Count == 0 || r.Created.Before(g.Oldest) {
		g.Oldest = r.Created
	}
	g.Count++
	g.Bytes += r.Bytes
	if !task.Terminal(r.Status) {
		g.Live++
	}
}

// survey is what a view of the list shows.
type survey struct {
	partial  bool // the sums are over the first MaxTasks tasks of the store
	all      group
	byStatus map[mcp.TaskStatus]*group
	byOwner  map[string]*group
	held     map[string]int // number of unfinished tasks by the ID of the member that holds them
	matching int            // number of tasks that match the query, on all pages
	page     []task.Record  // in order
	more     bool           // there are further pages
}

// snapshot is what a scan of the store has found.
type snapshot struct {
	tasks []task.Record // briefs
	more  bool          // the store has further tasks
	at    time.Time
}

// sharedSize is the number of tasks from which on all views share a snapshot for a while.
const sharedSize = 1000

// readTimeout is how long the list waits for the next task of the store.
const readTimeout = 5 * time.Second

// snapshot returns the tasks of the store, at most MaxTasks. Only one view scans the store at a
// time, and the views of the next seconds use the result if it is large.
func (p *page) snapshot(ctx context.Context) (*snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.latest; s != nil && len(s.tasks) >= sharedSize && time.Since(s.at) < refresh*time.Second {
		return s, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(readTimeout, func() { cancel(fmt.Errorf("no answer for %v", readTimeout)) })
	defer slow.Stop()
	s := new(snapshot)
	for r, err := range p.Store.Scan(ctx) {
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		slow.Reset(readTimeout)
		if len(s.tasks) == p.MaxTasks {
			s.more = true
			break
		}
		s.tasks = append(s.tasks, r)
	}
	s.at = time.Now()
	p.latest = s
	return s, nil
}

// portion is the number of tasks of an owner that are read at once.
const portion = 256

// tasksOf returns the tasks of an owner, at most MaxTasks.
func (p *page) tasksOf(ctx context.Context, owner string) (tasks []task.Record, err error) {
	for after := uint64(0); ; {
		list, err := p.Store.List(ctx, owner, after, portion)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, list...)
		if len(list) < portion || len(tasks) >= p.MaxTasks {
			return tasks, nil
		}
		after = list[len(list)-1].Seq
	}
}

// survey returns the sums over a snapshot of the store and the page of at most PageSize tasks that
// q selects. It is empty if the store fails.
func (p *page) survey(ctx context.Context, q query) (*survey, error) {
	s := &survey{byStatus: map[mcp.TaskStatus]*group{}, byOwner: map[string]*group{}, held: map[string]int{}}
	found, err := p.snapshot(ctx)
	if err != nil {
		return s, err
	}
	tasks := found.tasks
	if found.more && q.owner != nil { // the snapshot may not have all of them
		if tasks, err = p.tasksOf(ctx, *q.owner); err != nil {
			return s, err
		}
	}
	s.partial = found.more
	for i := range found.tasks {
		r := &found.tasks[i]
		s.all.add(r)
		groupOf(s.byStatus, r.Status).add(r)
		groupOf(s.byOwner, r.Owner).add(r)
		if !task.Terminal(r.Status) {
			s.held[r.Claim.Member]++
		}
	}
	for i := range tasks {
		r := &tasks[i]
		if !q.matches(r) {
			continue
		}
		s.matching++
		if q.after == nil || q.compare(positionOf(r), *q.after) > 0 {
			s.page = append(s.page, *r)
		}
		if len(s.page) >= 4*p.PageSize {
			s.trim(q, p.PageSize)
		}
	}
	s.trim(q, p.PageSize)
	for i := range s.page {
		p.explain(&s.page[i])
	}
	return s, nil
}

// trim sorts the page and drops all but its first size tasks.
func (s *survey) trim(q query, size int) {
	slices.SortFunc(s.page, func(a, b task.Record) int { return q.compare(positionOf(&a), positionOf(&b)) })
	if len(s.page) > size {
		s.page, s.more = s.page[:size], true
	}
}

func groupOf[K comparable](groups map[K]*group, k K) *group {
	g := groups[k]
	if g == nil {
		g = new(group)
		groups[k] = g
	}
	return g
}

// owners returns at most n owners, ordered by their number of live tasks, then of all tasks.
func (s *survey) owners(n int) []string {
	list := make([]string, 0, len(s.byOwner))
	for owner := range s.byOwner {
		list = append(list, owner)
	}
	slices.SortFunc(list, func(a, b string) int {
		x, y := s.byOwner[a], s.byOwner[b]
		return cmp.Or(cmp.Compare(y.Live, x.Live), cmp.Compare(y.Count, x.Count), strings.Compare(a, b))
	})
	return list[:min(n, len(list))]
}

// live returns the sum over the tasks that are not terminal.
func (s *survey) live() *group {
	var sum group
	for status, g := range s.byStatus {
		if task.Terminal(status) {
			continue
		}
		if sum.Count == 0 || g.Oldest.Before(sum.Oldest) {
			sum.Oldest = g.Oldest
		}
		sum.Count += g.Count
		sum.Live += g.Live
		sum.Bytes += g.Bytes
	}
	return &sum
}
