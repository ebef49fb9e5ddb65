package jetstream

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// removeOrphans implements [Store.RemoveOrphans] for entries of at least the given age.
func (s *store) removeOrphans(ctx context.Context, age time.Duration) (removed int, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	for partition := range s.partitions {
		n, err := s.removeOrphanEntries(ctx, partition, age)
		removed += n
		if err == nil {
			n, err = s.removeOrphanParts(ctx, partition)
			removed += n
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// removeOrphanEntries removes the entries in the index of owners that have no task. A younger entry
// may belong to a task that is being created.
func (s *store) removeOrphanEntries(ctx context.Context, partition int, age time.Duration) (removed int, err error) {
	stream, filter := s.indexStream(partition), s.prefix(partition)+".o.*"
	for from := uint64(1); ; {
		entries, err := s.readNext(ctx, stream, filter, from, portion)
		if err != nil {
			return removed, err
		}
		orphans := make([]bool, len(entries))
		err = parallel(len(entries), readers, func(n int) error {
			id := string(entries[n].Data)
			if !validID(id) {
				return nil
			}
			r, err := s.load(ctx, id)
			if err != nil {
				return err
			}
			if r != nil && r.record.Seq == entries[n].Seq {
				if fleets.NeedsHolder(r.record.Status, r.record.Job) {
					err = s.repair(ctx, &r.record)
				}
				return err
			}
			if age > 0 && s.earlier().Sub(entries[n].Time) < age {
				return nil
			}
			orphans[n] = true
			return s.retry(ctx, "remove orphan", func(ctx context.Context) error {
				_, err := s.remove(ctx, stream, entries[n].Seq)
				return err
			})
		})
		for _, orphan := range orphans {
			if orphan {
				removed++
			}
		}
		if err != nil || len(entries) < portion {
			return removed, err
		}
		from = entries[portion-1].Seq + 1
	}
}

// removeOrphanParts removes the parts that no record refers to. A part is written together with the
// record that refers to it, and its subject is never used again.
func (s *store) removeOrphanParts(ctx context.Context, partition int) (removed int, err error) {
	prefix := s.prefix(partition) + ".p."
	stream := s.recordStream(partition)
	subjects, err := s.list(ctx, stream, prefix+"*.*.*")
	if err != nil {
		return 0, err
	}
	blobs := make(map[string][]string) // parts by token and generation
	for _, subject := range subjects {
		rest := strings.TrimPrefix(subject, prefix)
		if i := strings.LastIndexByte(rest, '.'); i > 0 {
			blobs[rest[:i]] = append(blobs[rest[:i]], subject)
		}
	}
	for name, parts := range blobs {
		token, generation, _ := strings.Cut(name, ".")
		m, err := s.last(ctx, "read task", stream, s.prefix(partition)+".r."+token)
		if err != nil {
			return removed, err
		}
		if m != nil {
			r, err := decode(m)
			if err != nil {
				return removed, err
			}
			if slices.ContainsFunc(r.blobs(), func(b *blob) bool { return hex.EncodeToString(b.generation[:]) == generation }) {
				continue
			}
		}
		for some := range slices.Chunk(parts, maxBatch) {
			s.removeParts(ctx, some)
		}
		removed += len(parts)
	}
	return removed, nil
}
