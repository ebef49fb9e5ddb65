// Package schemadiff says what changed between two revisions of a schema and what that
// does to the Go package generated from them.
//
// # Effects
//
// The generator merges revisions into one package: the newest shape wins, what older
// revisions had stays, and a field is plain only if every revision that has the definition
// requires it; else it is a pointer, or a slice, map, raw value or union whose nil means
// absent. So the effect of a change is what becomes of the package made from the older
// revision alone once the newer one is merged in:
//
//   - [Added]: there is more to use, and code that compiled still does.
//   - [Widened]: the Go type is the same, but values turn up that did not before.
//   - [Breaking]: the Go type changes, so code that uses it has to.
//   - [None]: the generated API stays as it is. Validate for the newer revision may find
//     more or less wrong than for the older one.
//
// # Rules
//
//	definition  new                            added
//	            gone                           none: its type stays
//	            renamed (same shape)           added, if the overrides have a rename row
//	field       new, required or not           added: the older revision lacks it, so it may be absent
//	            gone, was optional             none: it stays
//	            gone, was required             as if it became optional
//	            required → optional            breaking: a plain field becomes a pointer;
//	                                           widened if its type has a nil that means absent;
//	                                           added for a constant, which gets a field
//	            optional → required            none: it may be absent in the older revision
//	type        of a field or definition       breaking, but for these:
//	            to a part of what it was       none: the wider type stays (any value, a variant of
//	                                           the union, one of several scalars, not null any more)
//	            struct → inline or open object none: the struct stays
//	            union → something else         widened: the union has to hold that, too
//	            between several scalars        widened: one type holds them all
//	            between free-form values       widened or none: they are all raw JSON
//	            between names of the same      no change: names of scalars, lists and maps are aliases
//	enum        value new                      added: a Go constant
//	            value gone                     none: the Go constant stays
//	const       another value, or several      breaking: it becomes a field to be set
//	union       variant new                    widened: a type switch meets one more
//	            variant gone                   none: the variant stays
//	bounds      tighter, or otherwise changed  none
//	            looser or gone                 widened
//	other       members forbidden              none: they are kept all the same
//	members     members allowed                widened
//	method      new, or new for a side         added: handler interfaces have embeddable defaults
//	            gone, or gone for a side       none
//	            request ↔ notification         breaking
//
// Finally, the generator merges both revisions. A change is breaking, even if no rule says so, if the
// merge fails, or if a Go name of the older revision changes or no longer exists.
//
// Two revisions are all that is looked at. Others that are merged in can soften an effect:
// a field that an older one lacks is a pointer already. The overrides are not applied
// either: a row that names an inline shape prevents what is reported as breaking here, and
// one that makes an open object a struct breaks what is not.
package schemadiff
