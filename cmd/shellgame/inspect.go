package main

import (
	"fmt"
	"slices"
	"strings"

	"shellgame/model/inspect"
)

type inspectCmd struct {
	deviceFlag
	modelFlag
	Token  int    `help:"The token whose strongest heads are named, counted from 0; -1 is the last." default:"-1"`
	Top    int    `help:"How many heads are named." default:"5"`
	Layer  []int  `help:"Print each head of this layer; may be given several times." placeholder:"N"`
	JSON   bool   `help:"Print one JSON object, with every head."`
	Prompt string `arg:"" help:"What the model reads."`
}

func (c *inspectCmd) Run(a *app) error {
	if c.Top < 0 {
		return usage("--top: got %d, want 0 or more", c.Top)
	}
	tok, err := c.tokenizer()
	if err != nil {
		return err
	}
	ids, err := encode(tok, c.Prompt)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("inspect: the prompt has no token, want some text")
	}
	at := c.Token
	if at < 0 {
		at += len(ids)
	}
	if at < 0 || at >= len(ids) {
		return usage("--token: got %d, want 0 to %d, or -1 for the last: the prompt has %d tokens", c.Token, len(ids)-1, len(ids))
	}
	dev, m, err := begin(a, c.deviceFlag, c.modelFlag)
	if err != nil {
		return err
	}
	defer dev.Close()
	for _, l := range c.Layer {
		if l < 0 || l >= len(m.Config.Layers) {
			return usage("--layer: got %d, want 0 to %d", l, len(m.Config.Layers)-1)
		}
	}
	bar := a.bar("reading", false)
	rep, err := inspect.Run(a.ctx, m, ids, at, c.Top, func(done int) {
		bar.ChangeMax(len(ids))
		bar.Set(done)
	})
	bar.Exit()
	if err != nil {
		return err
	}
	rep.Prompt = c.Prompt
	for _, id := range ids {
		rep.Tokens = append(rep.Tokens, inspect.Token{ID: id, Text: tok.Token(id)})
	}
	if c.JSON {
		return a.printJSON(rep)
	}
	c.print(a, rep)
	return nil
}

func (c *inspectCmd) print(a *app, rep *inspect.Report) {
	say := func(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
	say("%s on %s, %s: %d tokens", rep.Model.Name, rep.Device, rep.Adapter, len(rep.Tokens))
	say("layer  heads  |S| least to most   alpha %v to %v  beta %v to %v  beta > 1", rep.Alphas[0], rep.Alphas[len(rep.Alphas)-1], rep.Betas[0], rep.Betas[len(rep.Betas)-1])
	for _, l := range rep.Layers {
		if l.Kind != "gdn" {
			say("%5d  %5d  attention", l.Layer, len(l.Heads))
			continue
		}
		alpha, beta, negative := make([]int, len(rep.Alphas)-1), make([]int, len(rep.Betas)-1), float32(0)
		least, most := l.Heads[0].Norm, l.Heads[0].Norm
		for _, h := range l.Heads {
			least, most = min(least, h.Norm), max(most, h.Norm)
			negative += h.Negative / float32(len(l.Heads))
			for i, n := range h.Alpha {
				alpha[i] += n
			}
			for i, n := range h.Beta {
				beta[i] += n
			}
		}
		say("%5d  %5d  %8.3g %8.3g   %s    %s   %6.1f %%", l.Layer, len(l.Heads), least, most, bars(alpha), bars(beta), 100*negative)
		if slices.Contains(c.Layer, l.Layer) {
			for _, h := range l.Heads {
				say("    head %3d       %8.3g   %s    %s   %6.1f %%", h.Head, h.Norm, bars(h.Alpha), bars(h.Beta), 100*h.Negative)
			}
		}
	}
	say("token %d, %q:", rep.At, rep.Tokens[rep.At].Text)
	ranks := func(what string, list []inspect.Rank, more func(inspect.Rank) string) {
		var parts []string
		for _, r := range list {
			parts = append(parts, fmt.Sprintf("layer %d head %d %.1f %%%s", r.Layer, r.Head, 100*r.By, more(r)))
		}
		if len(parts) > 0 {
			say("  %s: %s", what, strings.Join(parts, ", "))
		}
	}
	none := func(inspect.Rank) string { return "" }
	ranks("wrote most of their state", rep.Wrote, none)
	ranks("read most of their state", rep.Read, none)
	ranks("attended most to one token", rep.Looked, func(r inspect.Rank) string {
		t := rep.Layers[r.Layer].Heads[r.Head].Token
		return fmt.Sprintf(" to %d %q", t, rep.Tokens[t].Text)
	})
}

// bars draws a histogram, a character a bin.
func bars(counts []int) string {
	most := max(slices.Max(counts), 1)
	b := []rune(strings.Repeat(" ", len(counts)))
	for i, n := range counts {
		if n > 0 {
			b[i] = []rune("▁▂▃▄▅▆▇█")[n*7/most]
		}
	}
	return string(b)
}
