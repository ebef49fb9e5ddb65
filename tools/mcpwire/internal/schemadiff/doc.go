// Package schemadiff lists the changes between two revisions of a schema and their effect on
// the Go package generated from them.
//
// # Effects
//
// The generator merges revisions into one package. Types have the form of the newest revision
// and keep the members of older ones. A field is plain if every revision that has the
// definition requires it. Otherwise it is a pointer, or a slice, map, raw value or union whose
// nil means absent. The effect of a change is the difference between the package made from the
// older revision and the package made from both:
//
//   - [Added]: new API, and existing code still compiles.
//   - [Widened]: the same Go type with new values.
//   - [Breaking]: the Go type changes, so code that uses it must change.
//   - [None]: the same API. Validate may report more or fewer faults for the newer revision
//     than for the older one.
//
// # Rules
//
//	definition  new                            added
//	            removed                        none: its type stays
//	            renamed (same shape)           added, if the overrides have a rename row
//	field       new, required or not           added: the older revision lacks it, so it is optional
//	            removed, was optional          none: it stays
//	            removed, was required          as if it became optional
//	            required → optional            breaking: a plain field becomes a pointer;
//	                                           widened if its type has a nil that means absent;
//	                                           added for a constant, which gets a field
//	            optional → required            none: it is optional in the older revision
//	type        of a field or definition       breaking, except:
//	            to a narrower type             none: the wider type stays (any value, a variant of
//	                                           the union, one of several scalars, no longer null)
//	            struct → inline or open object none: the struct stays
//	            union → another type           widened: the union gets it as a variant
//	            between several scalars        widened: one type holds them all
//	            between free-form values       widened or none: all are raw JSON
//	            between names of the same      no change: names of scalars, lists and maps are aliases
//	enum        value new                      added: a Go constant
//	            value removed                  none: the Go constant stays
//	const       another value, or several      breaking: it becomes a field
//	union       variant new                    widened: a type switch has one more case
//	            variant removed                none: the variant stays
//	bounds      tighter, or otherwise changed  none
//	            looser or removed              widened
//	other       members forbidden              none: they are kept anyway
//	members     members allowed                widened
//	method      new, or new for a side         added: handler interfaces have embeddable defaults
//	            removed, or for one side       none
//	            request ↔ notification         breaking
//
// Finally, the generator merges both revisions. A change is breaking, even if no rule says so, if
// the merge fails, or if a Go name of the older revision changes or no longer exists.
//
// Only two revisions are compared. Further merged revisions can weaken an effect: a field that
// an older one lacks is a pointer already. Overrides are not applied either: a row that names
// an inline shape can prevent a change that is reported as breaking here, and a row that makes
// an open object a struct can break code although no breaking change is reported.
package schemadiff
