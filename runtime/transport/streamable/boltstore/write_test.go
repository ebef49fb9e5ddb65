package boltstore

import (
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// If a write of a transaction fails, the other writes of the transaction are repeated. A repeated
// write must not count its bytes twice.
func TestRepeatedBeginCountsTheSameBytes(t *testing.T) {
	s, err := open(filepath.Join(t.TempDir(), "events.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.Begin(t.Context(), "s", "1", []byte(`[1]`)); err != nil {
		t.Fatal(err)
	}
	queue := &store{o: s.o, writes: make(chan *write), closing: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- queue.Begin(t.Context(), "s", "1", []byte(`[1]`)) }()
	s.commit([]*write{<-queue.writes, {func(*bbolt.Tx) error { return errors.New("failed") }, make(chan error, 1)}})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		if got := number(tx.Bucket(root).Bucket([]byte("s")).Get(keySize)); got != 3+overhead {
			t.Errorf("the session has a size of %d bytes, want %d", got, 3+overhead)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
