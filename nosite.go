//go:build !site

// Package shellgame holds the built site, in builds with the tag site.
package shellgame

import "io/fs"

// Site returns the files that `make site` put into dist/: the page, its wasm and the zoo, with
// NAME.gz and NAME.br beside what compresses. Builds without the tag site have none.
func Site() (fs.FS, bool) { return nil, false }
