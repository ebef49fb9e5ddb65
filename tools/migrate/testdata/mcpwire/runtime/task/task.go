// Package task has declarations of an earlier version.
package task

type Store interface{ Close() error }

type Config struct {
	Store    Store
	PageSize int
}
