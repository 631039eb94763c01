package main

import (
	"fmt"
	"os"
	"strings"

	"shellgame/model/construct"
	"shellgame/model/safetensors"
)

type constructCmd struct {
	ST     constructST     `cmd:"" name:"st" help:"State tracking in one GDN layer."`
	SBR    constructSBR    `cmd:"" name:"sbr" help:"State-based recall in three GDN layers and one of attention."`
	Random constructRandom `cmd:"" help:"Random weights of a given shape, to try loading and speed."`
}

// intoDir is the folder that a model is written to.
type intoDir struct {
	Dir string `arg:"" help:"Folder to write; it must not exist or be empty." type:"path"`
}

func (d intoDir) done(a *app, err error) error {
	if err == nil {
		fmt.Fprintf(a.out, "wrote %s\n", d.Dir)
	}
	return err
}

type constructST struct{ intoDir }

func (c *constructST) Run(a *app) error { return c.done(a, construct.Write("st", c.Dir)) }

type constructSBR struct{ intoDir }

func (c *constructSBR) Run(a *app) error { return c.done(a, construct.Write("sbr", c.Dir)) }

type constructRandom struct {
	intoDir
	Config    string `help:"A config.json, or one of ${shapes}." required:"" placeholder:"FILE"`
	Type      string `help:"Stored type, f32, f16 or bf16." enum:"f32,f16,bf16" default:"bf16"`
	Seed      uint64 `help:"The same seed gives the same weights, whatever the type." default:"1"`
	Shard     int    `help:"Megabytes of weights in a file at most; 0 is one file." placeholder:"MB"`
	Tokenizer string `help:"A tokenizer.json to put beside the weights." type:"path" placeholder:"FILE"`
}

func (c *constructRandom) Run(a *app) error {
	if c.Shard < 0 {
		return usage("--shard: got %d, want megabytes, or 0 for one file", c.Shard)
	}
	r := construct.Random{DType: safetensors.DType(strings.ToUpper(c.Type)), Seed: c.Seed, Shard: int64(c.Shard) * 1e6, Files: map[string][]byte{}}
	var err error
	if shape, ok := construct.Shape(c.Config); ok {
		r.Config = shape
	} else if r.Config, err = os.ReadFile(c.Config); err != nil {
		return fmt.Errorf("--config: %w: want a config.json, or one of %s", err, strings.Join(construct.Shapes(), ", "))
	}
	if c.Tokenizer != "" {
		if r.Files["tokenizer.json"], err = os.ReadFile(c.Tokenizer); err != nil {
			return err
		}
	}
	return c.done(a, r.Write(a.ctx, c.Dir))
}
