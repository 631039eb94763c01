package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"shellgame/model"
	"shellgame/model/tokenizer"
	"shellgame/task"
)

type runCmd struct {
	deviceFlag
	modelFlag
	MaxNew int     `help:"Most tokens to generate." default:"64"`
	Temp   float64 `help:"Temperature; 0 takes the most probable token." default:"0"`
	Seed   uint64  `help:"Seed of the choice where --temp is above 0." default:"1"`
	Prompt string  `arg:"" help:"What the model reads first; a one-line, unfinished program is fine."`
}

func (c *runCmd) Run(a *app) error {
	if c.MaxNew < 1 {
		return usage("--max-new: got %d, want 1 or more", c.MaxNew)
	}
	if !(c.Temp >= 0) || math.IsInf(c.Temp, 1) {
		return usage("--temp: got %v, want 0 or a positive number", c.Temp)
	}
	tok, err := c.tokenizer()
	if err != nil {
		return err
	}
	ids, err := encode(tok, c.Prompt)
	if err != nil {
		return err
	}
	dev, m, err := begin(a, c.deviceFlag, c.modelFlag)
	if err != nil {
		return err
	}
	defer dev.Close()
	switch most := m.Config.MaxPos - len(ids); {
	case most < 1:
		return fmt.Errorf("run: the prompt has %d tokens, %s reads at most %d (max_position_embeddings): shorten it", len(ids), m.Name, m.Config.MaxPos)
	case c.MaxNew > most:
		return fmt.Errorf("run: --max-new asks for %d tokens, after this prompt %s has room for %d (max_position_embeddings %d): ask for fewer", c.MaxNew, m.Name, most, m.Config.MaxPos)
	}
	r, err := m.NewRunner(model.Options{Seqs: 1, Positions: len(ids) + c.MaxNew, Tokens: min(len(ids), 512)})
	if err != nil {
		return err
	}
	s := r.NewSession()
	// Pipelines are made before the clock starts.
	warm := r.NewSession()
	for _, n := range []int{min(len(ids), r.Opts.Tokens), 1} {
		if _, err := warm.Prefill(a.ctx, ids[:n], true); err != nil {
			return err
		}
		warm.Release()
	}
	start := time.Now()
	out, err := s.Prefill(a.ctx, ids, true)
	if err != nil {
		return err
	}
	prefill := time.Since(start)
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	start = time.Now()
	n := 0
	for ; n < c.MaxNew; n++ {
		id, err := choose(out.Logits, c.Temp, rng)
		if err != nil {
			return err
		}
		if slices.Contains(m.Config.EOSAll, id) {
			break
		}
		if n > 0 {
			fmt.Fprint(a.out, " ")
		}
		fmt.Fprint(a.out, tok.Token(id))
		if n+1 == c.MaxNew {
			n++
			break
		}
		if out, err = s.Step(a.ctx, id, true); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.out)
	decode := time.Since(start)
	note := fmt.Sprintf("%s: prefill %d tokens at %.0f tokens/s", describe(dev), len(ids), float64(len(ids))/prefill.Seconds())
	if n > 1 { // the first new token is the prefill's
		note += fmt.Sprintf(", decode %d at %.0f tokens/s", n-1, float64(n-1)/decode.Seconds())
	}
	a.note("%s", note)
	return nil
}

// encode reads a prompt as a program where the tokenizer is the zoo's, so that free spacing and
// new lines are welcome; any other text goes to the tokenizer as it is.
func encode(tok tokenizer.Tokenizer, text string) ([]int, error) {
	if id, ok := tok.ID("a,b,c,d,e=range(5)"); ok && tok.N() == task.NumWords && id >= 0 {
		p, err := task.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("program: %w", err)
		}
		var ids []int
		for _, t := range p.Tokens() {
			ids = append(ids, int(t.ID))
		}
		return ids, nil
	}
	ids, err := tok.Encode(text)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, errors.New("run: the prompt is empty")
	}
	return ids, nil
}

// choose picks the next token: the most probable one, the first of equals, or at a temperature one
// by its softmax probability.
func choose(logits []float32, temp float64, rng *rand.Rand) (int, error) {
	best, sum := 0, 0.0
	for i, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 1) {
			return 0, fmt.Errorf("run: the logit of token %d: got %v, want a finite number: the checkpoint is damaged or its training diverged", i, v)
		}
		if v > logits[best] {
			best = i
		}
	}
	if temp <= 0 {
		return best, nil
	}
	cum := make([]float64, len(logits))
	for i, v := range logits {
		sum += math.Exp(float64(v-logits[best]) / temp)
		cum[i] = sum
	}
	return min(sort.SearchFloat64s(cum, rng.Float64()*sum), len(logits)-1), nil
}
