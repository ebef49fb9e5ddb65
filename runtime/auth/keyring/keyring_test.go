package keyring_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	system "github.com/zalando/go-keyring"

	"github.com/mcpwire/mcpwire/runtime/auth/filestore"
	"github.com/mcpwire/mcpwire/runtime/auth/keyring"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

func TestKeyIsStable(t *testing.T) {
	system.MockInit()
	key, err := keyring.Key("mcpwire")
	if err != nil || len(key) != 32 {
		t.Fatalf("got %d bytes, %v", len(key), err)
	}
	again, err := keyring.Key("mcpwire")
	if err != nil || !bytes.Equal(again, key) {
		t.Errorf("the second time, the key is another one: %v", err)
	}
	if other, err := keyring.Key("other"); err != nil || bytes.Equal(other, key) {
		t.Errorf("two services have the same key: %v", err)
	}
}

func TestKeyOpensAStore(t *testing.T) {
	system.MockInit()
	path, k := filepath.Join(t.TempDir(), "credentials"), oauth.Key{Kind: "token"}
	for n := range 2 {
		key, err := keyring.Key("mcpwire")
		if err != nil {
			t.Fatal(err)
		}
		s, err := filestore.Open(path, key)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := s.Put(t.Context(), k, []byte("value")); err != nil {
				t.Fatal(err)
			}
		} else if got, err := s.Get(t.Context(), k); err != nil || string(got) != "value" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestKeyReturnsErrors(t *testing.T) {
	locked := errors.New("locked")
	system.MockInitWithError(locked)
	if _, err := keyring.Key("mcpwire"); !errors.Is(err, locked) {
		t.Errorf("Key: %v", err)
	}
	system.MockInit()
	for _, text := range []string{"hunter2", "aHVudGVyMg=="} {
		if err := system.Set("mcpwire", "credentials key", text); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Key("mcpwire"); err == nil || strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
