package form_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
)

// A host shows a server's form, parses the user's input and checks the response.
func ExampleFields() {
	var schema mcp.ElicitRequestFormParamsRequestedSchema
	err := codec.Unmarshal([]byte(`{"type":"object","required":["copies"],"properties":{
		"copies":{"type":"integer","minimum":1,"title":"How many"},
		"paper":{"type":"string","oneOf":[{"const":"a4","title":"A4"},{"const":"a5","title":"A5"}],"default":"a4"}}}`), &schema)
	if err != nil {
		log.Fatal(err)
	}
	content := map[string]form.Value{}
	for _, field := range form.Fields(&schema) {
		fmt.Println(field.Title, field.Required, field.Kind == form.Choice)
		for _, o := range field.Options {
			fmt.Println(" ", o.Title)
		}
		if field.Name == "copies" {
			_, err := field.Parse("some")
			fmt.Println(" ", err)
			if content["copies"], err = field.Parse("2"); err != nil {
				log.Fatal(err)
			}
		}
	}
	content = form.Fill(&schema, content)
	fmt.Println(form.Format(content["copies"]), form.Format(content["paper"]), form.Check(&schema, content))
	// Output:
	// How many true false
	//   "some" is not a number
	// paper false true
	//   A4
	//   A5
	// 2 a4 <nil>
}
