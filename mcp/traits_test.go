package mcp_test

import (
	"reflect"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

// A row of the table that contradicts the schema of its revision is wrong, and so is a missing one.
func TestTraitsAgreeWithTheSchemas(t *testing.T) {
	some := map[bool]bool{}
	for _, rev := range mcp.Revisions() {
		traits := rev.Traits()
		output := document(t, string(rev)).Defs["CallToolResult"].Property("structuredContent")
		for _, row := range []struct {
			name      string
			got, want bool
		}{
			{"Sessionless", traits.Sessionless, !rev.Has(mcp.MethodInitialize)},
			{"InputInResults", traits.InputInResults, rev.Defines("InputRequiredResult")},
			{"Listens", traits.Listens, rev.Has(mcp.MethodSubscriptionsListen)},
			{"TasksByServer", traits.TasksByServer, traits.Sessionless && !rev.Has(mcp.MethodTasksGet)},
			{"ResultTypes", traits.ResultTypes, rev.Defines("ResultType")},
			{"CacheHints", traits.CacheHints, rev.Defines("CacheableResult")},
			{"LogInRequests", traits.LogInRequests, !rev.Has(mcp.MethodLoggingSetLevel)},
			{"AnyOutput", traits.AnyOutput, output != nil && output.Types == nil},
			{"OwnErrors", traits.OwnErrors, rev.Defines("MissingRequiredClientCapabilityError")},
		} {
			some[row.got] = true
			if row.got != row.want {
				t.Errorf("%s: %s is %v, but its schema says %v", rev, row.name, row.got, row.want)
			}
		}
	}
	if !some[true] || !some[false] {
		t.Errorf("all rows are alike: %v", some)
	}
	if unknown := mcp.Revision("").Traits(); !reflect.ValueOf(unknown).IsZero() {
		t.Errorf("the traits of an unknown revision are %+v", unknown)
	}
}
