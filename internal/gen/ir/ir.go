// Package ir is the generator's intermediate representation: all decisions about the Go package,
// but not its source text.
//
// A [Package] holds the declared types and the method table. Types are linked by
// pointer. Declared types are *[Struct], *[Union], *[Enum], *[OneOrMany], *[Wrapper] and
// *[Alias]. Other types occur in fields: [Prim], *[Scalar], [Raw], *[List], *[Map],
// *[Nullable] and *[External]. Package plan makes it, package emit prints it.
package ir

// Package is one Go package to be generated.
type Package struct {
	Name      string // package name
	Doc       string // first sentences of the package comment
	Revisions []Revision

	Structs   []*Struct    // sorted by GoName, like all lists of declarations
	Unions    []*Union     //
	Enums     []*Enum      //
	OneOrMany []*OneOrMany //
	Wrappers  []*Wrapper   //
	Aliases   []*Alias     //

	Methods []*Method // sorted by direction, then name
	Sides   [2]string // Go names of the side that is FromClient, and of the other one
	// Plain is set for a protocol that knows neither capabilities nor tasks.
	Plain bool

	Defs    []*Def   // every definition of every revision, sorted by name
	Imports []Import // packages of external types

	Capabilities []*Capability // of the client, then of the server, each in the order of the members
	Needs        []*Need       // sorted by the name of the struct

	// Projected are the types that vary between revisions and are part of a message: structs,
	// unions that lack a variant in some revision, *OneOrMany and *Wrapper, in this order.
	Projected []Type
}

// Revs is a set of revisions: bit i stands for Package.Revisions[i].
type Revs uint64

// Revision is one protocol revision.
type Revision struct {
	Label string // as in the protocol, such as "2025-11-25"
	Const string // Go name of its constant
}

// Def ties the name of a definition in the schemas to its Go type.
type Def struct {
	Name string
	Type Type
	Base bool // the package generated before has the definition
}

// Doc is the comment of a declaration or field.
type Doc struct {
	Text      string // the documentation; may be empty
	Revisions string // which revisions have it, in words; "" when all do
	Link      string // page of the specification, or ""
}

// Type is a Go type.
type Type interface{ isType() }

// Struct is an object with named members.
type Struct struct {
	GoName string
	Def    string // name of the definition, or "" for an inline shape
	Doc    Doc
	In     Revs     // revisions that have the object in this form
	Fields []*Field // sorted by JSON name
	// Rest is the type of members that have no field: nil when they are kept raw.
	Rest Type
	// Required counts the fields and constants that carry a required bit.
	Required int
	// Unions are the unions that the struct is a variant of, sorted by name.
	Unions []*Union
	// Embedded reports whether some other struct holds this one as a plain field.
	Embedded bool
	Varies   Revs // revisions in which projection can drop something of a value
	// Parts are the definitions of objects with required members that the definition of the struct
	// repeats with allOf.
	Parts []*Struct
}

// Presence is the way in which a field distinguishes an absent member from a present one.
type Presence int

// The presences.
const (
	Plain    Presence = iota // required by every revision: a plain field
	Pointer                  // optional: nil means absent
	NilEmpty                 // optional, of a type whose nil or zero value means absent
)

// Field is one member of a Struct.
type Field struct {
	JSON   string // member name
	GoName string // "" for a constant that needs no field
	Type   Type
	Doc    Doc
	In     Revs // revisions that have the member

	Presence Presence
	// Open reports that some revision has the struct but not the member, so that the member may
	// have any value there. A value that does not fit the field is kept in Extra.
	Open bool
	// Bit is the position in the set of required members, or -1. Optional members have
	// bits after those, which serve only to find duplicates.
	Bit int
	// Lacking are the revisions that have the struct but not the member. Projection drops the
	// member there.
	Lacking Revs
	// Const is the JSON text of the only value the member may have; such a member has no
	// field if every revision requires it.
	Const string
}

// Union is a choice of variants behind one sealed interface.
type Union struct {
	GoName   string
	Def      string
	Doc      Doc
	Variants []*Variant
	Pick     Pick
	Guesses  []Guess // variants to try in turn before Pick, for speed; may be nil
	// ByMethod marks a union of all results of one side. The method of the request determines the
	// variant, so the union is decoded through the method table.
	ByMethod bool
	Varies   Revs // as in Struct
}

// Variant is one alternative of a union: a *Struct or *Wrapper, or a type of another
// package.
type Variant struct {
	Type    Type
	In      Revs   // revisions that have it
	Lacking Revs   // revisions that have the union but not this variant
	Revs    string // which revisions have it, in words; "" when all do
}

// Pick selects the variant of a union by the value. The fields apply in their order. A value that
// none of them selects has an unknown variant.
type Pick struct {
	Kinds   []KindCase // by JSON type
	Tags    []TagCase  // by the values of string members, the member most variants share first
	Keys    []KeyCase  // by the presence of a member
	Default *Variant   // for an object without a selected variant, or nil
}

// Guess is a variant to read when only the first member of an object is known. The guess is right
// if the value read has none of the contradictions.
type Guess struct {
	First   *KeyCase // first member of an object that the guess is for, or nil for any object
	Variant *Variant // a *Struct
	Unless  []Contradiction
}

// Contradiction shows that a value has another variant than the one that it was read as: a member
// without a field, or a certain string in a field.
type Contradiction struct {
	Member string // a member without a field, or "" for a Field
	Field  *Field // optional
	Value  string // of Field
}

// KindCase selects a variant by JSON type. Kind is a name of codec's kinds without the
// prefix: "String", "Number", "Bool", "Array" or "Object".
type KindCase struct {
	Kind    string
	Variant *Variant
}

// TagCase selects by the value of Member, which is a string or, if Bool is set, a boolean.
type TagCase struct {
	Member string
	Bool   bool // the values are booleans
	Values []TagValue
	// Absent applies if the member is missing; nil means to continue with Keys.
	Absent *Pick
	// Other applies to values that are not listed; nil means an unknown variant.
	Other *Pick
}

// TagValue is one value of a tag and the decision that follows.
type TagValue struct {
	Value string
	Pick  *Pick
}

// KeyCase selects a variant by the presence of a member. Path has the names that lead to it, in
// most cases just one. Kinds are the JSON types that the variant admits there, as in KindCase; nil
// stands for every type but null.
type KeyCase struct {
	Path    []string
	Kinds   []string
	Variant *Variant
}

// Enum is a string or integer with named values. Other values are kept and reported by
// Validate.
type Enum struct {
	GoName string
	Def    string
	Doc    Doc
	String bool // strings; otherwise integers
	Values []EnumValue
}

// EnumValue is one constant of an Enum.
type EnumValue struct {
	GoName string
	JSON   string // JSON text
	Doc    Doc
}

// OneOrMany is a value that is either one element or a list of them.
type OneOrMany struct {
	GoName string
	Doc    Doc
	Elem   Type
	Varies Revs // as in Struct
}

// Wrapper is a named type around a variant that is not an object, so that it can be a
// variant of a union.
type Wrapper struct {
	GoName string
	Doc    Doc
	Type   Type // *List, *Map, *Scalar, Prim or Raw
	Unions []*Union
	Varies Revs // as in Struct
}

// Alias is another name for a type.
type Alias struct {
	GoName string
	Def    string
	Doc    Doc
	Type   Type
}

// Prim is a Go type with no parts.
type Prim int

// The primitive types. Extra keeps the exact text of a number that an integer or float field cannot
// represent. In lists and maps, Number keeps the text itself.
const (
	String Prim = iota
	Bool
	Int
	Float
	Number
)

// Scalar is a string, number or boolean with its exact text: codec.Scalar.
type Scalar struct{ String, Integer, Number, Bool bool }

// Raw is unchanged JSON text. Its value is the JSON type that the text must have.
type Raw int

// The raw kinds.
const (
	RawAny Raw = iota
	RawObject
	RawArray
)

// List is a slice of Elem.
type List struct{ Elem Type }

// Map is a map from strings to Elem.
type Map struct{ Elem Type }

// Nullable is Elem or null. A required one is a pointer, nil meaning null; an optional one
// is a pointer to a wire.Nullable.
type Nullable struct{ Elem Type }

// Import is a package that generated code refers to by Name.
type Import struct{ Name, Path string }

// External is a declared type of another generated package.
type External struct {
	Package string // package name
	Type    Type   // its declaration there
}

func (*Struct) isType()    {}
func (*Union) isType()     {}
func (*Enum) isType()      {}
func (*OneOrMany) isType() {}
func (*Wrapper) isType()   {}
func (*Alias) isType()     {}
func (Prim) isType()       {}
func (*Scalar) isType()    {}
func (Raw) isType()        {}
func (*List) isType()      {}
func (*Map) isType()       {}
func (*Nullable) isType()  {}
func (*External) isType()  {}

// Varies returns the revisions in which projection can drop a part of a value of type t.
func Varies(t Type) Revs {
	switch t := t.(type) {
	case *Struct:
		return t.Varies
	case *Union:
		return t.Varies
	case *OneOrMany:
		return t.Varies
	case *Wrapper:
		return t.Varies
	case *Alias:
		return Varies(t.Type)
	case *List:
		return Varies(t.Elem)
	case *Map:
		return Varies(t.Elem)
	case *Nullable:
		return Varies(t.Elem)
	}
	return 0
}

// Direction is the set of sides that send a message.
type Direction int

// The directions. A message whose direction no schema states may come from either side.
const (
	FromClient Direction = 1 << iota
	FromServer
	FromBoth = FromClient | FromServer
)

// Other returns the sides that receive messages from d.
func (d Direction) Other() (other Direction) {
	if d&FromClient != 0 {
		other |= FromServer
	}
	if d&FromServer != 0 {
		other |= FromClient
	}
	return other
}

// Method is one request or notification of the protocol.
type Method struct {
	Name         string // as on the wire, such as "tools/call"
	GoName       string // stem of Go names, such as CallTool
	Const        string // Go name of the constant for Name, such as MethodToolsCall
	Def          string // name of the request's definition
	ParamsDef    string // name of the definition of the params
	ResultDef    string // name of the definition of a result whose type has no definition of its own, or ""
	ResultMember string // member of the response with the result, or "" if the schema states no result
	ParamsMember string // member of the message with the params, or "" if Def describes the params alone
	Notification bool
	From         Direction
	Params       Type // *Struct, *Union or *External; nil if the method has none
	OptParams    bool // params are optional
	Result       Type // *Struct, *Union or *External; nil for notifications
	Task         bool // the request may be run as a task (2025-11-25)
	In           Revs // revisions that have the method

	Capability     string // that the message needs, or ""
	CapabilityIn   Revs   // revisions that have the capability
	SenderDeclares bool   // the sender must have declared Capability; otherwise the receiver
	TaskCapability string // that the receiver needs to run the request as a task; "" if it cannot be one
	TaskIn         Revs   // revisions that have the capability
}

// Capability is a capability that a side can declare.
type Capability struct {
	Name string    // names of the members that lead to it, joined with dots
	Of   Direction // FromClient or FromServer: the side that declares it
	Type *Struct   // where the path begins
	Path []*Field
	In   Revs // revisions that have it
	// Unless is a capability in the same object, or nil. If the object is present without Unless,
	// it also declares this capability.
	Unless *Capability
}

// Need is a capability that the receiver of a message needs because of the params.
type Need struct {
	Params       *Struct
	Fields       []*Field // one of them must be set; nil for all params of the type
	In           Revs     // revisions that have such params
	Capability   string
	CapabilityIn Revs // revisions that have the capability
}
