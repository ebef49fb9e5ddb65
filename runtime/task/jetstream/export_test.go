package jetstream

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// Waiters returns the number of calls of Wait that are registered.
func Waiters(s task.Store) int { return s.(*Store).streams.hub.Len() }

// Name returns the name of the streams.
func (s *Store) Name() string { return s.streams.options.Name }

// RemoveAllOrphans is RemoveOrphans for entries of any age.
func (s *Store) RemoveAllOrphans(ctx context.Context) (int, error) {
	return s.streams.removeOrphans(ctx, 0)
}

// SetSweepPortion sets the number of entries of a bucket that are read at once.
func (s *Store) SetSweepPortion(n int) { s.streams.sweepPortion = n }

// Downgrade writes a record without large payloads as version 1 of the format.
func (opened *Store) Downgrade(ctx context.Context, id string) error {
	s := opened.streams
	r, err := s.get(ctx, id)
	if err != nil {
		return err
	}
	at := s.place(id)
	body := taskcode.AppendBody(nil, recordKey(&r.record), &r.record)
	r.held = 0
	data := r.encode(at.record, body)
	r.held = 1
	other := r.encode(at.record, body)
	position := 5 // after the checksum and the version
	for data[position] == other[position] {
		position++
	}
	data = slices.Delete(data, position, position+1)
	data[4] = 1
	binary.LittleEndian.PutUint32(data, crc32.Update(crc32.Checksum([]byte(at.record), castagnoli), castagnoli, data[4:]))
	m := newMessage(at.record, data, 0)
	m.Header.Set(headerExpect, strconv.FormatUint(r.seq, 10))
	_, err = s.publish(ctx, m)
	s.cache.drop(id)
	return err
}

// Entries returns the number of entries in the index of holders.
func Entries(t testing.TB, opened *Store) (n int) {
	t.Helper()
	s := opened.streams
	for partition := range s.partitions {
		list, err := s.list(t.Context(), s.recordStream(partition), s.prefix(partition)+".h.*.*")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range list {
			if !strings.Contains(subject, ".h._.") { // see confirmLast
				n++
			}
		}
	}
	return n
}

// Roster returns the number of members in the roster.
func Roster(t testing.TB, opened *Store) int {
	t.Helper()
	s := opened.streams
	list, err := s.list(t.Context(), s.memberStream(), s.rosterSubject("*"))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(list, s.rosterSubject("_")) { // see confirmLast
		return len(list) - 1
	}
	return len(list)
}

// SetTimeout sets Options.Timeout. The store must not be in use.
func (s *Store) SetTimeout(d time.Duration) { s.streams.options.Timeout = d }
