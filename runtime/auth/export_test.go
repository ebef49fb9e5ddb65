package auth

// PrincipalOf is principalOf, for tests.
var PrincipalOf = principalOf
