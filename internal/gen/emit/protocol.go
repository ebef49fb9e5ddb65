package emit

// protocol prints what the schemas say about messages apart from their types.
func (w *printer) protocol() {
	if len(w.p.Methods) > 0 {
		w.methodNames()
	}
}

// methodNames prints a constant for the name of each method.
func (w *printer) methodNames() {
	w.f("// The names of the methods, as on the wire.\nconst (\n")
	for _, m := range w.p.Methods {
		w.f("\t%s = %q\n", m.Const, m.Name)
	}
	w.f(")\n\n")
}
