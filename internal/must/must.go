// Package must shortens tests that do not expect an error.
package must

// Get returns v. It panics with err unless err is nil.
func Get[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
