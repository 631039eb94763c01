package shaders

// embedRows sets y [rows, D] to the rows of table [entries, D] that ids [rows] name, its first row
// being that of id First.
func embedRows(p EmbedParams, rows int, table weights, ids []uint32, y []float32) {
	d := int(p.D)
	for r := 0; r < rows; r++ {
		if ids[r] >= p.First {
			table.row(y[r*d:][:d], int(min(ids[r]-p.First, p.Entries-1)))
		}
	}
}
