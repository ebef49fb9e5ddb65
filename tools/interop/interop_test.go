package interop

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// childEnv makes the test binary a server, and says which.
const childEnv = "MCPWIRE_INTEROP_SERVER"

func TestMain(m *testing.M) {
	servers := map[string]func(transport.Conn) error{"plain": serve, "tasks": serveTasks}
	serve, ok := servers[os.Getenv(childEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := serve(stdio.Server(stdio.Options{})); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// install installs the SDK, once for all tests.
var install = sync.OnceValue(func() error {
	if _, err := os.Stat(filepath.Join("typescript", "node_modules", ".package-lock.json")); err == nil {
		return nil
	}
	cmd := exec.Command("npm", "ci")
	cmd.Dir = "typescript"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
})

// needSDK skips a test where there is no node, and installs the SDK where there is.
func needSDK(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	if err := install(); err != nil {
		t.Fatal(err)
	}
}

// transports are what the servers on the SDK can be reached over; see connect.mjs.
func transports() []string { return []string{"stdio", "http", "sse"} }

// theirs starts a server on the SDK and returns a connection to it.
func theirs(t *testing.T, program, over string) transport.Conn {
	t.Helper()
	program = filepath.Join("typescript", program)
	if over == "stdio" {
		p, err := stdio.Start(stdio.Command{Path: "node", Args: []string{program}, Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	cmd := exec.Command("node", program, over)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	serverURL, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := streamable.Dial(strings.TrimSpace(serverURL), streamable.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
