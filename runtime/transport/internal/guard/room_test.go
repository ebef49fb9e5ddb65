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
