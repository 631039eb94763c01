package shaders

// embedRows sets y [rows, D] to the rows of table [entries, D] that ids [rows] name.
func embedRows(p EmbedParams, rows int, table weights, ids []uint32, y []float32) {
	d := int(p.D)
	for r := 0; r < rows; r++ {
		table.row(y[r*d:][:d], int(min(ids[r], p.Entries-1))*d)
	}
}
