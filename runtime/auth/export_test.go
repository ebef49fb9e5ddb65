package auth

import "net/http"

// PrincipalOf is principalOf, for tests.
var PrincipalOf = principalOf

// Write writes the response of a rejected request.
func (d *Denied) Write(w http.ResponseWriter) { d.write(w) }
