//go:build js || !(windows || (window && cgo))

package main

import "errors"

type windowCmd struct {
	modelFlag
}

func (*windowCmd) Run(*app) error {
	return errors.New("window: this build has no window: build with cgo and -tags window, or use make play and a browser")
}
