package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// childEnv makes the test binary a server and selects it.
const childEnv = "MCPWIRE_INTEROP_SERVER"

func TestMain(m *testing.M) {
	serve, ok := children[os.Getenv(childEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// installSDK installs the SDK once for all tests.
var installSDK = sync.OnceValue(func() error { return install("typescript") })

// install installs the packages of a folder, unless they were installed after the last change of
// the lock file.
func install(folder string) error {
	locked, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return err
	}
	installed, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	if err == nil && installed.ModTime().After(locked.ModTime()) {
		return nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// needSDK installs the SDK. It skips the test if node is not available.
func needSDK(t *testing.T) {
	t.Helper()
	needNode(t)
	if err := installSDK(); err != nil {
		t.Fatal(err)
	}
}

// needNode skips the test if node is not available.
func needNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
}
