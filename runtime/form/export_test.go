package form

var Of = of

// Accept returns an error unless f accepts v.
func Accept(f *Field, v Value) error { return f.accept(v) }
