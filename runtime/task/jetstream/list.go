package jetstream

import (
	"context"
	"iter"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// List implements [task.Store]. It reads a page of the index of the owner from any replica and asks
// the leader whether there are more entries. It reads the records from the leader.
func (s *store) List(ctx context.Context, owner string, after uint64, limit int) (list []task.Record, err error) {
	defer s.observe("list", time.Now(), &err)
	if err := s.begin(ctx); err != nil || after+1 == 0 {
		return nil, err
	}
	stream, prefix, digest := s.ownerPlace(owner)
	for len(list) < limit {
		n := min(limit-len(list), portion)
		entries, err := s.readNext(ctx, stream, prefix+".o."+digest, after+1, n)
		if err != nil {
			return nil, err
		}
		briefs, err := s.briefs(ctx, entries)
		if err != nil {
			return nil, err
		}
		for i := range briefs {
			if briefs[i].Owner == owner {
				list = append(list, briefs[i])
			}
		}
		if len(entries) < n {
			break
		}
		after = entries[n-1].Seq
	}
	return list, nil
}

// portion is the number of entries of an index that are read at once.
const portion = 256

// briefs returns the briefs of the tasks that have the given entries in the index of their owner.
// It skips entries without a task.
func (s *store) briefs(ctx context.Context, entries []message) ([]task.Record, error) {
	found := make([]*stored, len(entries))
	err := parallel(len(entries), readers, func(n int) (err error) {
		if id := string(entries[n].Data); validID(id) {
			found[n], err = s.load(ctx, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var briefs []task.Record
	for i, r := range found {
		if r != nil && r.record.Seq == entries[i].Seq {
			briefs = append(briefs, r.record.Brief())
		}
	}
	return briefs, nil
}

// Scan implements [task.Store]. It follows the indexes of all owners, which updates do not reorder.
func (s *store) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		for partition := range s.partitions {
			stream, filter := s.indexStream(partition), s.prefix(partition)+".o.*"
			for after := uint64(0); ; {
				err := s.begin(ctx)
				var entries []message
				if err == nil {
					entries, err = s.readNext(ctx, stream, filter, after+1, portion)
				}
				var briefs []task.Record
				if err == nil {
					briefs, err = s.briefs(ctx, entries)
				}
				if err != nil {
					yield(task.Record{}, err)
					return
				}
				for i := range briefs {
					if !yield(briefs[i], nil) {
						return
					}
				}
				if len(entries) < portion {
					break
				}
				after = entries[portion-1].Seq
			}
		}
	}
}
