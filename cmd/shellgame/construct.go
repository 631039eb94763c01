package main

import (
	"fmt"

	"shellgame/model/construct"
)

type constructCmd struct {
	Kind string `arg:"" help:"st: state tracking in one GDN layer. sbr: state-based recall in three and one of attention." enum:"st,sbr"`
	Dir  string `arg:"" help:"Folder to write; it must not exist or be empty." type:"path"`
}

func (c *constructCmd) Run(a *app) error {
	if err := construct.Write(c.Kind, c.Dir); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "wrote %s\n", c.Dir)
	return nil
}
