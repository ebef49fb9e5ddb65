package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// A platform is what a binary runs on.
type platform struct{ os, arch string }

// platforms are those that a release has binaries for. Images are for Linux.
var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"linux", "amd64"}, {"linux", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// artifacts writes into dir what a release has besides the modules: an archive with the command line
// for each of the platforms, a container image of it, lists of the dependencies of each module
// (CycloneDX), and the checksums of all of them. They depend on the commit of the release and on the
// version of Go, but not on the machine and its folders.
func (r *repository) artifacts(ctx context.Context, dir, version string, platforms []platform, out io.Writer) error {
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := r.clone(ctx, work, "refs/tags/"+version)
	if err != nil {
		return err
	}
	stamp, err := git(ctx, c.root, "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return err
	}
	date := time.Unix(seconds, 0).UTC()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(c.root, "LICENSE"))
	if err != nil {
		return err
	}
	binaries := make(map[platform][]byte)
	for _, p := range platforms {
		program := file{"mcpwire", nil, 0o755}
		if p.os == "windows" {
			program.name += ".exe"
		}
		if program.text, err = c.build(ctx, work, p); err != nil {
			return err
		}
		binaries[p] = program.text
		name, pack := fmt.Sprintf("mcpwire_%s_%s_%s.tar.gz", version, p.os, p.arch), tarGzip
		if p.os == "windows" {
			name, pack = strings.TrimSuffix(name, ".tar.gz")+".zip", zipped
		}
		text, err := pack([]file{{"LICENSE", licence, 0o644}, program}, date)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			return err
		}
		fmt.Fprintln(out, name)
	}
	image := fmt.Sprintf("mcpwire_%s_image.tar", version)
	if err := writeImage(filepath.Join(dir, image), version, binaries, licence, date); err != nil {
		return err
	}
	fmt.Fprintln(out, image)
	if err := c.dependencies(ctx, work, dir, version, out); err != nil {
		return err
	}
	return writeChecksums(dir)
}

// build returns the command line for a platform.
func (r *repository) build(ctx context.Context, work string, p platform) ([]byte, error) {
	name := filepath.Join(work, "binary")
	env := []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
	_, err := execute(ctx, r.root, env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", name, "./tools/mcpwire")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// dependencies writes a list of the dependencies of each published module into dir.
func (r *repository) dependencies(ctx context.Context, work, dir, version string, out io.Writer) error {
	fetching, err := r.fetching(ctx, filepath.Join(work, "modules"))
	if err != nil {
		return err
	}
	lister := filepath.Join(work, "cyclonedx-gomod")
	here, err := os.Getwd() // in the module of this command, which requires the lister
	if err != nil {
		return err
	}
	// With the settings of build, it shares compiled packages.
	if _, err := execute(ctx, here, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", lister, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"); err != nil {
		return err
	}
	// The lister finds the version in git, but not in a clone that shares the objects of another one.
	if _, err := git(ctx, r.root, "repack", "-a", "-d", "-q"); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.root, ".git", "objects", "info", "alternates")); err != nil {
		return err
	}
	modules, err := r.published(ctx)
	if err != nil {
		return err
	}
	env := slices.Concat(fetching, []string{"GOOS=linux", "GOARCH=amd64"}) // wherever the lister runs
	for _, m := range modules {
		name := fmt.Sprintf("%s_%s.cdx.json", strings.ReplaceAll(cmp.Or(m.folder, "mcpwire"), "/", "-"), version)
		text, err := execute(ctx, filepath.Dir(m.name), env, lister, "mod", "-json", "-licenses", "-noserial", "-notimestamp", "-short-purls", "-type", "library")
		if err != nil {
			return err
		}
		list, err := withoutHashesOfTools([]byte(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), list, 0o666); err != nil {
			return err
		}
		fmt.Fprintln(out, name)
	}
	return nil
}

// withoutHashesOfTools removes from a list of dependencies the hashes of the program that has written it,
// which depend on the machine.
func withoutHashesOfTools(text []byte) ([]byte, error) {
	var list map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	metadata, _ := list["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	if len(tools) == 0 {
		return nil, errors.New("no tools in the metadata")
	}
	for _, tool := range tools {
		if tool, ok := tool.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
	text, err := json.MarshalIndent(list, "", "  ")
	return append(text, '\n'), err
}

// writeChecksums writes the SHA-256 of all files in dir to SHA256SUMS, for sha256sum -c.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	const name = "SHA256SUMS"
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == name {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(sums.String()), 0o666)
}

// A file is one in an archive.
type file struct {
	name string
	text []byte
	mode int64
}

// packTar returns an archive whose files belong to root.
func packTar(files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: date, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func tarGzip(files []file, date time.Time) ([]byte, error) {
	text, err := packTar(files, date)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func zipped(files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date})
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeImage writes an image of the command line for each Linux, as a layout of the Open Container
// Initiative in a tar file. The image has the binary and root certificates, and no system.
func writeImage(name, version string, binaries map[platform][]byte, licence []byte, date time.Time) error {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say that it holds for some only
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range slices.SortedFunc(maps.Keys(binaries), func(a, b platform) int { return strings.Compare(a.arch, b.arch) }) {
		if p.os != "linux" {
			continue
		}
		text, err := packTar([]file{
			{"etc/", nil, 0o755}, {"etc/ssl/", nil, 0o755}, {"etc/ssl/certs/", nil, 0o755},
			{"etc/ssl/certs/ca-certificates.crt", certificates.Bytes(), 0o644},
			{"LICENSE", licence, 0o644},
			{"mcpwire", binaries[p], 0o755},
			{"tmp/", nil, 0o1777},
		}, date)
		if err != nil {
			return err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
		if err != nil {
			return err
		}
		id, err := layer.DiffID()
		if err != nil {
			return err
		}
		image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
		if err != nil {
			return err
		}
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{
			OS: p.os, Architecture: p.arch, Created: v1.Time{Time: date},
			RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}},
			Config: v1.Config{
				Entrypoint: []string{"/mcpwire"}, User: "65532:65532", WorkingDir: "/tmp",
				Labels: map[string]string{"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
			},
		})
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		files = append(files, file{filepath.ToSlash(relative), text, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	text, err := packTar(files, date)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o666)
}
