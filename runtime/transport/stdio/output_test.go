package stdio

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestOutputOfExitedProcessIsReadAfterDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := strings.Repeat("0123456789", 100)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Skip(err) // pipes have no deadlines here
	}
	got, err := io.ReadAll(&output{File: r})
	if err != nil || string(got) != text {
		t.Errorf("got %d bytes of %d, %v", len(got), len(text), err)
	}
}

func TestReadingOutputAfterDeadlineIsLimited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Skip(err) // pipes have no deadlines here
	}
	o := &output{File: r, late: maxLate - 1}
	if n, err := o.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Errorf("below the limit: %d bytes, %v", n, err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("above the limit: %d bytes, %v", n, err)
	}
}
