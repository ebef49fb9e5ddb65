// Package keyring stores an encryption key in the keyring of the operating system: the Keychain of
// macOS, the Credential Manager of Windows, or the Secret Service of other systems. The key
// encrypts a file of credentials. The credentials themselves are not in the keyring, because
// keyrings limit the size of their items:
//
//	key, err := keyring.Key("com.example.assistant")
//	…
//	store, err := filestore.Open(path, key)
//
// It is a separate module because of its dependencies.
package keyring

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// user is the user name of the item in the keyring.
const user = "credentials key"

// keySize is the size of a key in bytes.
const keySize = 32

// Key returns the 32-byte key of a service, for example the name of a program. If the keyring has
// no key for the service, Key creates one. It blocks while the user unlocks the keyring. It fails
// if there is no keyring, which is common on servers. If two processes create the key of a service
// at the same time, one of them may get a key that the other has replaced.
func Key(service string) ([]byte, error) {
	text, err := keyring.Get(service, user)
	if errors.Is(err, keyring.ErrNotFound) {
		text, err = create(service)
	}
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("keyring: item %q of service %q is not a key", user, service)
	}
	return key, nil
}

// create stores a new key and returns the stored text, which may be the key of another process.
func create(service string) (string, error) {
	key := make([]byte, keySize)
	rand.Read(key)
	if err := keyring.Set(service, user, base64.StdEncoding.EncodeToString(key)); err != nil {
		return "", err
	}
	return keyring.Get(service, user)
}
