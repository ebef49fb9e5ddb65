package debugpage

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The values of the parameter status beside the statuses themselves.
const (
	statusLive = "live" // all that are not over; also what an empty value means
	statusAll  = "all"
)

var statuses = [...]mcp.TaskStatus{
	mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled,
}

// query is what a view of the list shows.
type query struct {
	status string
	owner  *string // nil for all; the empty owner is one like any other
	newest bool    // the newest first
	after  *place  // where the page begins; nil is the start
}

// place is where a task stands in the list: by age, and by id among those of the same microsecond.
type place struct {
	created int64 // in microseconds since 1970
	id      string
}

func placeOf(r *task.Record) place { return place{r.Created.UnixMicro(), r.ID} }

func (q *query) compare(a, b place) int {
	c := cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.id, b.id))
	if q.newest {
		return -c
	}
	return c
}

// parseQuery reads the parameters of a URL; ok is false if they are none of ours.
func parseQuery(v url.Values) (q query, ok bool) {
	q.status = cmp.Or(v.Get("status"), statusLive)
	if q.status != statusLive && q.status != statusAll && !slices.Contains(statuses[:], mcp.TaskStatus(q.status)) {
		return q, false
	}
	if v.Has("owner") {
		q.owner = new(v.Get("owner"))
	}
	q.newest = v.Get("order") == "newest"
	if after := v.Get("after"); after != "" {
		created, id, found := strings.Cut(after, ".")
		n, err := strconv.ParseInt(created, 10, 64)
		if !found || err != nil {
			return q, false
		}
		q.after = &place{n, id}
	}
	return q, true
}

// link returns the URL of the view, relative to any of the page.
func (q query) link() string {
	v := url.Values{"status": {q.status}}
	if q.owner != nil {
		v.Set("owner", *q.owner)
	}
	if q.newest {
		v.Set("order", "newest")
	}
	if q.after != nil {
		v.Set("after", strconv.FormatInt(q.after.created, 10)+"."+q.after.id)
	}
	return "?" + v.Encode()
}

func (q query) withStatus(s string) query { q.status, q.after = s, nil; return q }
func (q query) withOwner(o *string) query { q.owner, q.after = o, nil; return q }
func (q query) withOrder(newest bool) query {
	q.newest, q.after = newest, nil
	return q
}

func (q *query) takes(r *task.Record) bool {
	if q.owner != nil && *q.owner != r.Owner {
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

// group sums up tasks that have something in common.
type group struct {
	Count, Live int
	Bytes       int64
	Oldest      time.Time // the creation of the oldest
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

// survey is what one look at all tasks gives.
type survey struct {
	all      group
	byStatus map[mcp.TaskStatus]*group
	byOwner  map[string]*group
	matching int           // the tasks that the query takes, on all pages
	page     []task.Record // in order
	more     bool          // there are further pages
}

// look goes over the tasks of a store and keeps a page of size of those that q takes.
func look(ctx context.Context, store task.Store, q query, size int) (*survey, error) {
	s := &survey{byStatus: map[mcp.TaskStatus]*group{}, byOwner: map[string]*group{}}
	for r, err := range store.Scan(ctx) {
		if err != nil {
			return nil, err
		}
		s.all.add(&r)
		groupOf(s.byStatus, r.Status).add(&r)
		groupOf(s.byOwner, r.Owner).add(&r)
		if !q.takes(&r) {
			continue
		}
		s.matching++
		if q.after == nil || q.compare(placeOf(&r), *q.after) > 0 {
			s.page = append(s.page, r)
		}
		if len(s.page) >= 4*size {
			s.trim(q, size)
		}
	}
	s.trim(q, size)
	return s, nil
}

// trim leaves the first tasks in the page, of those that have been found until now.
func (s *survey) trim(q query, size int) {
	slices.SortFunc(s.page, func(a, b task.Record) int { return q.compare(placeOf(&a), placeOf(&b)) })
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

// owners returns those with the most live tasks, and then the most tasks, at most n of them.
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

// live sums up the tasks that are not over.
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
