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
	"shellgame/webgpu"
)

type verifyCmd struct {
	deviceFlag
	Dirs   []string `arg:"" help:"Folders with a checkpoint each." name:"dir"`
	Golden string   `help:"The golden file, for one folder; default golden.safetensors in it, or ../golden/NAME.safetensors." type:"path" placeholder:"FILE"`
	JSON   bool     `help:"Print one JSON object."`
}

// golden finds the golden file of a checkpoint.
func (c *verifyCmd) golden(dir string) (string, error) {
	if c.Golden != "" {
		return c.Golden, nil
	}
	name, err := folderName(dir)
	if err != nil {
		return "", err
	}
	places := []string{
		filepath.Join(dir, "golden.safetensors"),
		filepath.Join(dir, "..", "golden", name+".safetensors"),
	}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("golden: found neither %s nor %s, want one of them or --golden FILE", places[0], places[1])
}

// folderName is the last part of a folder's path, also where that is "." or the like.
func folderName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return filepath.Base(abs), err
}

func (c *verifyCmd) Run(a *app) error {
	if c.Golden != "" && len(c.Dirs) > 1 {
		return usage("--golden: got %d folders, want one: it is the golden file of one", len(c.Dirs))
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
		k, err := c.one(a, dev, dir)
		if a.ctx.Err() != nil {
			return nil, a.ctx.Err()
		}
		if err != nil {
			k = verify.Case{Dir: dir, Error: oneLine(err)}
		}
		rep.Add(k)
	}
	return rep, nil
}

func (c *verifyCmd) one(a *app, dev webgpu.Device, dir string) (verify.Case, error) {
	name, err := folderName(dir)
	if err != nil {
		return verify.Case{}, err
	}
	m, err := model.Open(a.ctx, dev, name, safetensors.Dir(dir), nil)
	if err != nil {
		return verify.Case{}, err
	}
	defer m.Release()
	a.leftAside(m)
	path, err := c.golden(dir)
	if err != nil {
		return verify.Case{}, err
	}
	g, err := goldentest.Open(path)
	if err != nil {
		return verify.Case{}, err
	}
	defer g.Close()
	return verify.Model(a.ctx, dir, m, g), nil
}
