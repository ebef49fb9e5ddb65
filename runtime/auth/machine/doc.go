// Package machine authorizes programs without a user: client credentials, authentication with a
// private key, tokens of an enterprise's identity provider and of workloads, and tokens that are
// bound to a key (DPoP).
//
// Set oauth.Options.Grant to one of its grants, oauth.Client.Auth to a PrivateKeyJWT, and
// oauth.Options.Prover to a DPoP. A failed flow is not retried, and no grant falls back to another.
package machine
