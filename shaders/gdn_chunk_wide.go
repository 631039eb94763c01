package shaders

// GDNWide reports whether [GDNWYWide] and [GDNChunkWide] can compute the chunked delta rule of
// these sizes: they read four elements at a time.
func GDNWide(p GDNParams, k, v int) bool {
	return GDNChunkOK(k, v) && (uint32(k|v)|p.Stride|p.Col)%4 == 0
}

var wideShapes = []C{{"K": 12, "V": 24}, {"K": 32, "V": 64}, {"K": 96, "V": 192}, {"K": 128, "V": 128}}

// GDNWYWide is [GDNWY] for devices with many cores: it inverts I + A once and multiplies by it,
// where that one solves for each column by itself.
var GDNWYWide = register(&Kernel{
	Name:     "gdn_wy_wide",
	Doc:      "chunked delta rule: the triangular system of each chunk, inverted",
	Params:   GDNParams{},
	Slots:    GDNWY.Slots,
	Includes: []string{"rolled"},
	Variants: wideShapes,
	Grid:     GDNWY.Grid,
	Twin:     GDNWY.Twin,
})

// GDNChunkWide is [GDNChunk] for devices with many cores.
var GDNChunkWide = register(&Kernel{
	Name:     "gdn_chunk_wide",
	Doc:      "chunked delta rule: the state from chunk to chunk, four elements at a time",
	Params:   GDNParams{},
	Slots:    GDNChunk.Slots,
	Includes: []string{"seq", "rolled"},
	Variants: wideShapes,
	Grid:     GDNChunk.Grid,
	Twin:     GDNChunk.Twin,
})
