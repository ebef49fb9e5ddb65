package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// verify checks the whole file except the payloads, the params and the contents of journals: its
// length, the head of each record, and that the indexes match the records. It reads each bucket
// once, in order. To compare an index with the records, it sums the hashes of all its keys and
// values: the sums differ if one is missing, changed or superfluous. The keys of payloads, params
// and journals are checked in the same way.
func verify(db *bbolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("bolt: %w", err)
	}
	return view(db, func(b buckets) error {
		if size := b.tasks.Tx().Size(); size > info.Size() {
			return fmt.Errorf("%w: %s has %d bytes of %d", task.ErrCorrupt, path, info.Size(), size)
		}
		return b.verify()
	})
}

func (b buckets) verify() error {
	var ids, owners, expiry, payloads, params, entries sum
	err := each(b.tasks, 8, func(k, v []byte) error {
		r, apart, err := taskcode.DecodeHead(k, v)
		if err != nil {
			return corrupt(k, err)
		}
		if r.Seq > b.tasks.Sequence() {
			return corrupt(k, taskcode.ErrDamaged)
		}
		ids.add([]byte(r.ID), k)
		owners.add(ownerKey(r.Owner, r.Seq), nil)
		if r.TTL != 0 {
			expiry.add(expiryKey(r.Expires(), r.Seq), nil)
		}
		if apart > 0 {
			params.add(k, nil)
		}
		for n := range taskcode.Recorded(r.Durable) {
			if n == 0 {
				payloads.add(k, nil)
			}
			entries.add(entryKey(k, n), nil)
		}
		return nil
	})
	if err != nil {
		return err
	}
	tx := b.tasks.Tx()
	for _, index := range []struct {
		name   string
		bucket *bbolt.Bucket
		key    int
		values bool // the values count
		want   sum
	}{
		{"ids", b.ids, 0, true, ids}, {"owners", b.owners, 24, true, owners}, {"expiry", b.expiry, 16, true, expiry},
		{"payloads", tx.Bucket(payloadsBucket), 8, false, payloads},
		{"params", tx.Bucket(paramsBucket), 8, false, params}, {"entries", tx.Bucket(entriesBucket), 12, false, entries},
	} {
		var got sum
		if index.bucket != nil {
			err := each(index.bucket, index.key, func(k, v []byte) error {
				if !index.values {
					v = nil
				}
				got.add(k, v)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if got != index.want {
			return fmt.Errorf("%w: bucket %q with %d keys does not match %d tasks", task.ErrCorrupt, index.name, got.n, ids.n)
		}
	}
	return nil
}

// each calls visit for each entry of a bucket. It fails if the keys are not in ascending order, or,
// unless length is 0, if a key has another length.
func each(bucket *bbolt.Bucket, length int, visit func(k, v []byte) error) error {
	var last []byte
	c := bucket.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if length > 0 && len(k) != length || last != nil && string(k) <= string(last) {
			return fmt.Errorf("%w: key %x is damaged or out of place", task.ErrCorrupt, k)
		}
		if err := visit(k, v); err != nil {
			return err
		}
		last = k
	}
	return nil
}

// sum is a checksum over entries that does not depend on their order.
type sum struct{ n, a, b uint64 }

func (s *sum) add(k, v []byte) {
	h := sha256.New()
	h.Write(k)
	h.Write(v)
	var digest [sha256.Size]byte
	h.Sum(digest[:0])
	s.n++
	s.a += binary.LittleEndian.Uint64(digest[:])
	s.b += binary.LittleEndian.Uint64(digest[8:])
}
