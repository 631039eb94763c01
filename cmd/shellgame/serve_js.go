package main

import "errors"

type serveCmd struct{}

func (*serveCmd) Run(*app) error {
	return errors.New("serve: this build runs inside JavaScript and cannot listen: use a native one")
}
