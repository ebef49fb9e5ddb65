package mcpwire_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// configs are the configurations whose fields are in groups, with the function that checks a value.
var configs = []struct {
	config any
	check  func(config any) error
}{
	{server.Options{}, func(c any) error { return server.New("s", "1", new(c.(server.Options))).Err() }},
	{task.Options{}, func(c any) error {
		cfg := c.(task.Options)
		cfg.Store = memory.New()
		m, err := task.New(context.Background(), cfg)
		if err == nil {
			err = m.Close(context.Background())
		}
		return err
	}},
	{session.Options{}, func(c any) error {
		cfg := c.(session.Options)
		cfg.Logger = slog.New(slog.DiscardHandler)
		conn, _ := inmemory.Pair(inmemory.Options{})
		s := session.Serve(conn, nil, &cfg)
		s.Close()
		return s.Wait()
	}},
	{client.Options{}, func(c any) error {
		conn, peer := inmemory.Pair(inmemory.Options{})
		session.Serve(peer, nil, nil)
		connected, err := client.Connect(context.Background(), conn, new(c.(client.Options)))
		if err == nil {
			err = connected.Close()
		}
		return err
	}},
	{httpclient.Options{}, func(c any) error {
		conn, err := streamable.Dial("http://localhost", streamable.ClientOptions{Options: c.(httpclient.Options)})
		if err == nil {
			err = conn.Close()
		}
		return err
	}},
	{streamable.HandlerOptions{}, func(c any) error { return c.(streamable.HandlerOptions).Check() }},
	{sse.HandlerOptions{}, func(c any) error { return c.(sse.HandlerOptions).Check() }},
}

// maxFields is the number of fields that a configuration, or a group in it, may have.
const maxFields = 10

// A negative number in a configuration is an error that names the field. The only exception is -1,
// which means no limit where a field admits that.
func TestConfigsRejectNegativeNumbers(t *testing.T) {
	for _, test := range configs {
		typ := reflect.TypeOf(test.config)
		t.Run(typ.String(), func(t *testing.T) {
			for _, field := range numbers(typ) {
				value := reflect.New(typ).Elem()
				number := value.FieldByIndex(field.Index)
				set(number, -3)
				want := fmt.Sprintf("%s: negative %s (%v)", strings.Split(typ.String(), ".")[0], field.Name, number)
				if err := test.check(value.Interface()); err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				set(number, -1)
				if err := test.check(value.Interface()); err != nil && !strings.Contains(err.Error(), "negative "+field.Name+" (") {
					t.Error(err)
				}
			}
		})
	}
}

// set sets a field to a whole number.
func set(field reflect.Value, n int64) {
	if field.CanFloat() {
		field.SetFloat(float64(n))
	} else {
		field.SetInt(n)
	}
}

// numbers returns the fields of a configuration and its groups that are numbers. Their Name is the
// path, and their Index that from the configuration. Groups are structs of the same package.
func numbers(typ reflect.Type) (all []reflect.StructField) {
	for f := range typ.Fields() {
		switch f.Type.Kind() {
		case reflect.Struct:
			if f.Type.PkgPath() != typ.PkgPath() {
				continue
			}
			for _, inner := range numbers(f.Type) {
				inner.Name = f.Name + "." + inner.Name
				inner.Index = slices.Concat(f.Index, inner.Index)
				all = append(all, inner)
			}
		case reflect.Int, reflect.Int64, reflect.Float64:
			all = append(all, f)
		}
	}
	return all
}

func TestConfigsHaveFewFields(t *testing.T) {
	for _, test := range configs {
		checkFields(t, reflect.TypeOf(test.config), reflect.TypeOf(test.config).PkgPath())
	}
}

func checkFields(t *testing.T, typ reflect.Type, pkg string) {
	if n := typ.NumField(); n > maxFields {
		t.Errorf("%v has %d fields, more than %d: put them into groups", typ, n, maxFields)
	}
	for f := range typ.Fields() {
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == pkg {
			checkFields(t, f.Type, pkg)
		}
	}
}
