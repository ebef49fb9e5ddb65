// Package project writes new projects: small servers and clients with a test, an image and the
// files of a repository.
package project

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

// A Project is a program in a module of its own.
type Project struct {
	Module  string // path of the module, such as shop or github.com/ada/shop
	Version string // version of mcpwire that the module requires; "" requires none
	Client  bool   // the program is a client, and the other two are false
	Durable bool   // the tool of the server is durable
	HTTP    bool   // the server uses HTTP instead of standard input and output
}

// modulePath matches the paths of modules whose last element can be a folder on all systems.
var modulePath = regexp.MustCompile(`^` + element + `(/` + element + `)*$`)

const element = `[A-Za-z0-9]([\w.-]*[\w-])?`

// majorVersion matches the last element of module paths from version 2 on.
var majorVersion = regexp.MustCompile(`^v([2-9]|[1-9][0-9]+)$`)

// Name returns the name of the folder, the program and the server: the last element of the module
// path that is not a major version.
func (p *Project) Name() string {
	dir, name := path.Split(p.Module)
	if dir != "" && majorVersion.MatchString(name) {
		name = path.Base(dir)
	}
	return name
}

// Image returns the name of the container image.
func (p *Project) Image() string { return strings.ToLower(p.Name()) }

// Serve returns the call of the server's method that serves clients.
func (p *Project) Serve() string {
	if p.HTTP {
		return "ListenAndServe(context.Background(), *address, nil)"
	}
	return "ServeStdio(context.Background())"
}

// Commands returns commands that test, build and try the program. The dependencies of the module
// must be complete, which they are after [Project.Complete].
func (p *Project) Commands() []string {
	commands := []string{"go test ./...", "go build"}
	if p.Client {
		return append(commands, fmt.Sprintf(`./%s -call add -arguments '{"a":1,"b":2}' go tool mcpwire serve`, p.Name()))
	}
	call, server := "go tool mcpwire call", "./"+p.Name()
	if p.HTTP {
		commands = append(commands, server+" # and in another terminal:")
		server = "http://localhost:8080/mcp"
	}
	if p.Durable {
		return append(commands, call+" -task "+server+" render scenes=3")
	}
	return append(commands, call+" "+server+" greet name=World")
}

// Complete returns the command that completes the dependencies of the module.
func (p *Project) Complete() string {
	if p.Version == "" {
		return "go get github.com/mcpwire/mcpwire@latest && go mod tidy"
	}
	return "go mod tidy"
}

// Write writes the project into the folder Name in dir and returns the names of its files, sorted and
// with slashes. The folder must be empty or not exist.
func (p *Project) Write(ctx context.Context, dir string) (files []string, err error) {
	switch {
	case !modulePath.MatchString(p.Module):
		return nil, fmt.Errorf("invalid module path %q: want a name such as shop, or a path such as github.com/ada/shop", p.Module)
	case standard(ctx, p.Module):
		return nil, fmt.Errorf("the module path %q is that of a standard package; try %q", p.Module, "example.com/"+p.Module)
	}
	folder, err := filepath.Abs(filepath.Join(dir, p.Name()))
	if err != nil {
		return nil, err
	}
	texts, err := p.render(folder)
	if err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(folder); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("the folder %s is not empty", folder)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	for name, text := range texts {
		if err := create(filepath.Join(folder, filepath.FromSlash(name)), text); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	slices.Sort(files)
	return files, nil
}

// standard reports whether a path is that of a package of Go. A module with this path could not import
// that package. Without the go command, standard returns false.
func standard(ctx context.Context, module string) bool {
	if first, _, _ := strings.Cut(module, "/"); strings.Contains(first, ".") {
		return false
	}
	list := exec.CommandContext(ctx, "go", "list", "-find", "-f", "{{.Standard}}", module)
	list.Dir = os.TempDir() // not in a module
	out, _ := list.Output()
	return strings.HasPrefix(string(out), "true")
}

// create creates a file and its folder. It fails if the file exists.
func create(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// templates has the files of all projects, of servers and of clients. Their names have the suffix .tmpl,
// because go.mod would take its folder out of this module.
//
//go:embed all:template
var templates embed.FS

// render returns the files of the project by name. The project will be in the folder, an absolute
// path.
func (p *Project) render(folder string) (map[string][]byte, error) {
	kind := "server"
	if p.Client {
		kind = "client"
	}
	files := make(map[string][]byte)
	for _, root := range []string{"template/all", "template/" + kind} {
		err := fs.WalkDir(templates, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			t, err := template.New(path.Base(name)).Funcs(template.FuncMap{"json": quote}).ParseFS(templates, name)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := t.Execute(&text, &location{p, folder}); err != nil {
				return err
			}
			files[strings.TrimSuffix(strings.TrimPrefix(name, root+"/"), ".tmpl")] = text.Bytes()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// location is a project with its folder.
type location struct {
	*Project
	folder string
}

// Binary returns the path of the program that go build makes.
func (l *location) Binary() string {
	name := l.Name()
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(l.folder, name)
}

// Tasks returns the path of the file for the tasks.
func (l *location) Tasks() string { return filepath.Join(l.folder, "tasks.db") }

// quote returns a text in JSON.
func quote(text string) (string, error) {
	out, err := json.Marshal(text)
	return string(out), err
}
