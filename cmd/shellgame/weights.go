package main

import (
	"fmt"

	"shellgame/model"
	"shellgame/model/safetensors"
)

type weightsCmd struct {
	deviceFlag
	modelFlag
	JSON bool `help:"Print one JSON object."`
}

// weightsReport is what `shellgame weights --json` prints.
type weightsReport struct {
	Model   string        `json:"model"`
	Device  string        `json:"device"`
	Adapter string        `json:"adapter"`
	Weights []weightsKind `json:"weights"`
}

type weightsKind struct {
	Weights string           `json:"weights"` // stored, f16, int8 or int4
	Bytes   int64            `json:"bytes"`
	Against *model.Deviation `json:"against,omitempty"` // from f16 weights; of f16, from those stored
	Error   string           `json:"error,omitempty"`
}

// Run loads the model with each kind of weights beside f16, and says how far its logits are off.
func (c *weightsCmd) Run(a *app) error {
	if c.Weights != "" {
		return usage("--weights: got %s, want none: this command tries them all", c.Weights)
	}
	dev, err := c.open(a)
	if err != nil {
		return err
	}
	defer dev.Close()
	src, err := model.Look(c.name(), safetensors.Dir(c.Model))
	if err != nil {
		return err
	}
	defer src.Close()
	info := dev.Info()
	rep := weightsReport{Model: c.name(), Device: info.Kind, Adapter: info.Adapter}
	load := func(kind string) (*model.Model, error) {
		return src.Load(a.ctx, dev, model.LoadOptions{Weights: kind})
	}
	ref, err := load("f16")
	if err != nil {
		return err
	}
	defer ref.Release()
	for _, kind := range model.Weights {
		k := weightsKind{Weights: kind, Bytes: src.Bytes(model.LoadOptions{Weights: kind})}
		if kind == "" {
			k.Weights = "stored"
		}
		m, err := load(kind)
		if err == nil {
			var d model.Deviation
			if d, err = model.LogitError(a.ctx, ref, m); err == nil {
				k.Against = &d
			}
			m.Release()
		}
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if err != nil {
			k.Error = oneLine(err)
		}
		rep.Weights = append(rep.Weights, k)
	}
	if c.JSON {
		return a.printJSON(rep)
	}
	fmt.Fprintf(a.out, "%s on %s, %s\n", rep.Model, rep.Device, rep.Adapter)
	for _, k := range rep.Weights {
		what := k.Error
		if k.Against != nil {
			what = k.Against.String()
		}
		fmt.Fprintf(a.out, "%-6s %9.1f MB  %s\n", k.Weights, float64(k.Bytes)/1e6, what)
	}
	return nil
}
