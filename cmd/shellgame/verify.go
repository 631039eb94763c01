package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"shellgame/model"
	"shellgame/model/goldentest"
	"shellgame/model/safetensors"
	"shellgame/model/verify"
)

type verifyCmd struct {
	deviceFlag
	Dirs   []string `arg:"" help:"Folders with a checkpoint each." name:"dir" type:"path"`
	Golden string   `help:"The golden file, for one folder; default golden.safetensors in it, or ../golden/NAME.safetensors." type:"path" placeholder:"FILE"`
	JSON   bool     `help:"Print one JSON object."`
}

// golden finds the golden file of a checkpoint.
func (c *verifyCmd) golden(dir string) (string, error) {
	if c.Golden != "" {
		return c.Golden, nil
	}
	places := []string{
		filepath.Join(dir, "golden.safetensors"),
		filepath.Join(filepath.Dir(dir), "golden", filepath.Base(dir)+".safetensors"),
	}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("golden: found neither %s nor %s: name it with --golden", places[0], places[1])
}

func (c *verifyCmd) Run(a *app) error {
	if c.Golden != "" && len(c.Dirs) > 1 {
		return fmt.Errorf("--golden goes with one folder, got %d", len(c.Dirs))
	}
	var rep *verify.Report
	var err error
	if inBrowser(c.deviceFlag) {
		rep, err = verifyInBrowser(a, c)
	} else {
		rep, err = c.here(a)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		if err := a.printJSON(rep); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "%s, %s\n", rep.Device, rep.Adapter)
	}
	for _, k := range rep.Cases {
		for _, line := range k.Lines() {
			if c.JSON {
				a.note("%s", line)
			} else {
				fmt.Fprintln(a.out, line)
			}
		}
	}
	if !rep.Pass {
		return errFailed
	}
	return nil
}

func (c *verifyCmd) here(a *app) (*verify.Report, error) {
	dev, err := c.open(a)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	rep := verify.New(dev)
	for _, dir := range c.Dirs {
		if err := a.ctx.Err(); err != nil {
			return nil, err
		}
		path, err := c.golden(dir)
		if err != nil {
			rep.Add(verify.Case{Dir: dir, Error: err.Error()})
			continue
		}
		g, err := goldentest.Open(path)
		if err != nil {
			rep.Add(verify.Case{Dir: dir, Error: err.Error()})
			continue
		}
		m, err := model.Open(a.ctx, dev, filepath.Base(dir), safetensors.Dir(dir), nil)
		if err != nil {
			rep.Add(verify.Case{Dir: dir, Error: oneLine(err)})
			g.Close()
			continue
		}
		rep.Add(verify.Model(a.ctx, dir, m, g))
		m.Release()
		g.Close()
	}
	return rep, nil
}
