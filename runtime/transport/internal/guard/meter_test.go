package guard

import "testing"

// The first bytes of each connection have room in a full Room, which counts only the others.
func TestMeterCountsBytesAfterFreeOnes(t *testing.T) {
	room := NewRoom(20)
	one, other := NewMeter(room, 10), NewMeter(room, 10)
	for i, step := range []struct {
		meter *Meter
		bytes int
		want  bool
		used  int64
	}{
		{one, 10, true, 0}, {one, 15, true, 15}, {other, 12, true, 17}, {one, 5, true, 22},
		{one, 1, false, 22}, {other, 1, false, 22}, {NewMeter(room, 10), 10, true, 22}, {NewMeter(room, 10), 11, false, 22},
	} {
		if got := step.meter.Take(step.bytes); got != step.want || room.used.Load() != step.used {
			t.Errorf("step %d: %v, %d bytes, want %v, %d", i, got, room.used.Load(), step.want, step.used)
		}
	}
	if got := one.Limit(100); got != 10 {
		t.Errorf("limit in a full room: %d", got)
	}
	other.Add(3)
	other.Add(-15)
	one.Add(-25)
	if n := room.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	if got := one.Limit(100); got != 100 {
		t.Errorf("limit in an empty room: %d", got)
	}
	one.Add(20)
	one.End()
	one.Add(100)
	one.Add(-125)
	if n := room.used.Load(); n != 0 {
		t.Errorf("%d bytes are left after the end", n)
	}
}
