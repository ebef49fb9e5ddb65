// Package schemasync imports published schemas into the schema folder.
package schemasync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
)

// Limits for reading a schema. The largest published schema has less than 200 kB.
const (
	maxSize = 16 << 20
	timeout = time.Minute
)

// Report is the result of a sync.
type Report struct {
	Revision string
	File     string // the file in the schema folder
	Changed  bool   // whether the file was written, because it is new or differs

	Definitions, Fields, Values int
	PublishedSize, Size         int // in bytes, with and without the prose

	Undocumented []schemadocs.Member // definitions and fields without a text
}

var revisionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckRevision returns an error if rev cannot be the name of a revision's folder.
func CheckRevision(rev string) error {
	if !revisionName.MatchString(rev) {
		return fmt.Errorf("invalid revision %q; a revision has letters, digits, dots and dashes, such as 2025-11-25", rev)
	}
	return nil
}

// Sync reads the published schema from a file or, if it starts with http:// or https://,
// from that address, and writes its canonical form to dir/rev/schema.json. The
// documentation is in dir/docs.md; without that file nothing is documented. If Sync fails, it
// does not change the folder. An error about the schema wraps a [*schemadocs.Error].
func Sync(ctx context.Context, dir, rev, from string) (*Report, error) {
	if err := CheckRevision(rev); err != nil {
		return nil, err
	}
	published, err := read(ctx, from)
	if err != nil {
		return nil, err
	}
	src, err := schemadocs.Canonical(published)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", from, err)
	}
	members, err := schemadocs.Members(src)
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%s: no definitions", from)
	}
	docs, err := readDocs(filepath.Join(dir, "docs.md"))
	if err != nil {
		return nil, err
	}
	r := &Report{
		Revision:      rev,
		File:          filepath.Join(dir, rev, "schema.json"),
		PublishedSize: len(published),
		Size:          len(src),
		Undocumented:  docs.Undocumented(rev, members),
	}
	for _, m := range members {
		switch {
		case m.IsValue:
			r.Values++
		case m.Path != "":
			r.Fields++
		default:
			r.Definitions++
		}
	}
	r.Changed, err = write(r.File, src)
	return r, err
}

func read(ctx context.Context, from string) ([]byte, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readSome(f, from)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %s", from, resp.Status)
	}
	return readSome(resp.Body, from)
}

// readSome reads r to its end. It fails if r has more than maxSize bytes.
func readSome(r io.Reader, from string) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(body) > maxSize {
		return nil, fmt.Errorf("%s: more than %d bytes", from, maxSize)
	}
	return body, nil
}

func readDocs(file string) (*schemadocs.Docs, error) {
	src, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	docs, err := schemadocs.ParseDocs(src)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return docs, nil
}

// write writes the file unless it already has the content.
func write(file string, src []byte) (changed bool, err error) {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, src) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return false, err
	}
	return true, os.WriteFile(file, src, 0o644)
}

// Print writes the report as text: a summary, then a line for each undocumented definition
// and field.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	done := "wrote"
	if !r.Changed {
		done = "unchanged:"
	}
	fmt.Fprintf(&b, "%s %s: %d definitions, %d fields, %d values; %d bytes, %d without the prose\n",
		done, r.File, r.Definitions, r.Fields, r.Values, r.PublishedSize, r.Size)
	if len(r.Undocumented) == 0 {
		b.WriteString("everything is documented\n")
	} else {
		fmt.Fprintf(&b, "%d without documentation in docs.md:\n", len(r.Undocumented))
	}
	for _, m := range r.Undocumented {
		fmt.Fprintf(&b, "  %s\n", m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
