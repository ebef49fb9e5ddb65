package keyring_test

import (
	"log"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/runtime/auth/filestore"
	"github.com/mcpwire/mcpwire/runtime/auth/keyring"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// The credentials of a client are in a file, and the key of the file is in the keyring.
func ExampleKey() {
	key, err := keyring.Key("com.example.assistant")
	if err != nil {
		log.Fatal(err)
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		log.Fatal(err)
	}
	store, err := filestore.Open(filepath.Join(folder, "assistant", "credentials"), key)
	if err != nil {
		log.Fatal(err)
	}
	var _ oauth.Store = store // of oauth.Options
}
