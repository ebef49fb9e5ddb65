package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// needSDK skips the test if node is not available. It fails if the SDK is not installed.
func needSDK(t *testing.T) {
	t.Helper()
	needPackages(t, "typescript")
}

// needPackages skips the test if node is not available. It fails if the packages of the lock file in
// folder are not installed.
func needPackages(t *testing.T, folder string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	locked, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	installed, err := os.ReadFile(filepath.Join(folder, "node_modules", "installed-lock.json"))
	if err != nil || !bytes.Equal(installed, locked) {
		t.Fatalf("the packages of tools/interop/%s/package-lock.json are not installed: run .ci/setup", folder)
	}
}
