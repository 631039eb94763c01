package main

import "errors"

type windowCmd struct {
	modelFlag
}

func (*windowCmd) Run(*app) error {
	return errors.New("window: this build has no window: use make play and a browser")
}
