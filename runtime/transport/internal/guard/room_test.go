package guard

import "testing"

// The bytes of a part count in the whole, too.
func TestPartOfRoom(t *testing.T) {
	whole := NewRoom(10)
	one, other := &Share{Room: whole.Part(6)}, &Share{Room: whole.Part(6)}
	for _, step := range []struct {
		share *Share
		bytes int
		want  error
	}{{one, 6, nil}, {one, 1, errNoRoom}, {other, 3, nil}, {other, 1, errNoRoom}} {
		if err := step.share.add(step.bytes); err != step.want {
			t.Errorf("%d bytes: %v, want %v", step.bytes, err, step.want)
		}
	}
	one.Release()
	if err := other.add(2); err != nil {
		t.Errorf("after a release: %v", err)
	}
	other.Release()
	if n := whole.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// A moved share releases its bytes once. The last text that has room may be longer than the rest.
func TestRoomCountsMovedSharesAndTexts(t *testing.T) {
	whole := NewRoom(10)
	share := &Share{Room: whole}
	share.add(6)
	moved := share.Move()
	share.Release()
	part := whole.Part(8)
	if !part.Take(9) || part.Take(1) || whole.Take(1) {
		t.Error("a full room takes a text, or one with room does not")
	}
	moved.Release()
	moved.Release()
	part.Give(9)
	if n, m := whole.used.Load(), part.used.Load(); n != 0 || m != 0 {
		t.Errorf("%d and %d bytes are left", n, m)
	}
}
