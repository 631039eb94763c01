package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"shellgame/model/safetensors"
)

// renamed is a folder in which tokenizer.json is the file called name.
type renamed struct {
	dir  safetensors.Files
	name string
}

func (r renamed) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	if name == "tokenizer.json" {
		name = r.name
	}
	return r.dir.Open(name)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
