package inspect_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"shellgame/model"
	"shellgame/model/inspect"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func open(t *testing.T, d webgpu.Device, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(context.Background(), d, filepath.Base(dir), safetensors.Dir(filepath.Join("../..", dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

func text(n, vocab int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (i*i + 3*i + 1) % vocab
	}
	return ids
}

// What a report says is what the steps of a trace hold, added up here, with value heads that share keys
// and without negative eigenvalues too, wherever the chosen token stands.
func TestReportIsTheTrace(t *testing.T) {
	cpu := webgpu.NewCPU()
	for dir, negative := range map[string]bool{"testdata/golden/qwen3.5-text": false, "testdata/golden/olmo-hybrid-vheads-odd": true} {
		m := open(t, cpu, dir)
		c := m.Config
		ids := text(70, c.N) // more than a play
		r, err := m.NewRunner(model.Options{Tokens: 1, Seqs: 1, Positions: len(ids), Trace: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		s := r.NewSession()
		var steps []*model.Step
		for _, id := range ids {
			step, err := s.TraceStep(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step)
		}
		for _, at := range []int{0, 66, len(ids) - 1} {
			done := 0
			rep, err := inspect.Run(context.Background(), m, ids, at, 3, func(n int) { done = n })
			if err != nil {
				t.Fatal(err)
			}
			if done != len(ids) && at < len(ids)-1 || rep.At != at || len(rep.Layers) != len(c.Layers) || len(rep.Wrote) != 3 || len(rep.Looked) != min(3, c.Heads) {
				t.Errorf("%s: got %d of %d tokens, at %d, %d layers, ranks %v %v", dir, done, len(ids), rep.At, len(rep.Layers), rep.Wrote, rep.Looked)
			}
			any := false
			for i, l := range rep.Layers {
				for h, head := range l.Heads {
					if l.Kind == "attention" {
						rows := steps[at].Layers[i].Rows.Data[h*(at+1):][:at+1]
						near(t, dir, "weight", head.Weight, float64(rows[head.Token]))
						for _, p := range rows {
							if p > head.Weight+1e-5 {
								t.Errorf("%s layer %d head %d: weight %v is not the largest, %v is", dir, i, h, head.Weight, p)
							}
						}
						continue
					}
					above, alphas, betas := 0, make([]int, len(rep.Alphas)-1), make([]int, len(rep.Betas)-1)
					for _, step := range steps {
						alpha, beta := step.Layers[i].Alpha[h], step.Layers[i].Beta[h]
						if beta > 1 {
							above++
						}
						alphas[in(rep.Alphas, alpha)]++
						betas[in(rep.Betas, beta)]++
					}
					if d := distance(alphas, head.Alpha) + distance(betas, head.Beta); d > 2 { // a value on a border may fall to either side
						t.Errorf("%s layer %d head %d: histograms %v %v, want %v %v", dir, i, h, head.Alpha, head.Beta, alphas, betas)
					}
					near(t, dir, "share of negative eigenvalues", head.Negative, float64(above)/float64(len(ids)))
					any = any || above > 0
					size := c.K * c.V
					near(t, dir, "norm", head.Norm, length(steps[len(ids)-1].Layers[i].State.Data[h*size:][:size], nil, 0))
					now := steps[at].Layers[i]
					state := now.State.Data[h*size:][:size]
					was := make([]float32, size)
					if at > 0 {
						was = steps[at-1].Layers[i].State.Data[h*size:][:size]
					}
					near(t, dir, "wrote", head.Wrote, length(state, was, float64(now.Alpha[h]))/length(state, nil, 0))
					q := now.Q.Data[h/(c.HV/c.HK)*c.K:][:c.K]
					read := length(now.Out.Data[h*c.V:][:c.V], nil, 0) / (length(q, nil, 0) * length(state, nil, 0))
					near(t, dir, "read", head.Read, read)
					if read > 1+1e-6 {
						t.Errorf("%s: read %v, want at most 1", dir, read)
					}
				}
			}
			if any != negative {
				t.Errorf("%s: negative eigenvalues %v, want %v", dir, any, negative)
			}
			for k := range rep.Wrote {
				if w := rep.Wrote[k]; w.By != rep.Layers[w.Layer].Heads[w.Head].Wrote || k > 0 && w.By > rep.Wrote[k-1].By {
					t.Errorf("%s: ranks %v", dir, rep.Wrote)
				}
			}
		}
		if _, err := inspect.Run(context.Background(), m, ids, len(ids), 3, nil); err == nil {
			t.Errorf("%s: looked at a token that is not there", dir)
		}
	}
}

// A text that is read once can be looked at anywhere, in any order, with the same figures as when it is
// read for that token alone; what is interrupted goes on; switches are in the figures.
func TestReading(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := open(t, d, "testdata/golden/olmo-hybrid-vheads-odd")
		ctx, ids := t.Context(), text(45, m.Config.N)
		stop := errors.New("stop")
		r, err := inspect.New(m, ids, inspect.Options{Keep: []int{7, 20, 33, 99}, Aim: time.Nanosecond, First: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if _, err := r.At(ctx, 0, 3, nil); err == nil {
			t.Error("a text that is not read was looked at")
		}
		last := 0
		for {
			plays := 0
			err := r.Read(ctx, func(done, total int) error {
				if done <= last || done > last+3 || total != len(ids) {
					t.Errorf("a play to %d of %d after %d", done, total, last)
				}
				if last = done; plays == 2 {
					return stop
				}
				plays++
				return nil
			})
			if err == nil {
				break
			}
			if err != stop {
				t.Fatal(err)
			}
		}
		for _, at := range []int{40, 0, 7, 32} {
			got, err := r.At(ctx, at, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := inspect.Run(ctx, m, ids, at, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := apart(got, want); d > 2e-5 {
				t.Errorf("at %d: %g apart from what is read for it alone", at, d)
			}
			want.Layers[0].Heads[1].Wrote += 1e-3
			if d := apart(got, want); d < 2e-5 {
				t.Errorf("at %d: a changed figure is not found", at)
			}
		}
		for _, at := range []int{-1, 45} {
			if _, err := r.At(ctx, at, 3, nil); err == nil {
				t.Errorf("looked at token %d of 45", at)
			}
		}
		if _, err := inspect.New(m, nil, inspect.Options{}); err == nil {
			t.Error("read a text without tokens")
		}

		clamp, err := inspect.New(m, ids, inspect.Options{Switches: model.Switches{Beta: "clamp"}})
		if err != nil {
			t.Fatal(err)
		}
		defer clamp.Release()
		if err := clamp.Read(ctx, nil); err != nil {
			t.Fatal(err)
		}
		rep, err := clamp.At(ctx, 3, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range rep.Layers {
			for _, h := range l.Heads {
				if h.State != nil && h.Negative != 0 {
					t.Errorf("layer %d head %d: beta is clamped to 1, and %v of the steps have a negative eigenvalue", l.Layer, h.Head, h.Negative)
				}
			}
		}
		if rep.Switches == nil || rep.Switches.Beta != "clamp" {
			t.Errorf("the report says of its switches %+v", rep.Switches)
		}
	})
}

// apart is how far two reports of one text are from each other, infinite where more than numbers differs.
func apart(a, b *inspect.Report) (d float64) {
	if a.At != b.At || len(a.Layers) != len(b.Layers) || len(a.Wrote) != len(b.Wrote) || len(a.Looked) != len(b.Looked) {
		return math.Inf(1)
	}
	far := func(x, y float32) { d = max(d, math.Abs(float64(x)-float64(y))/max(1, math.Abs(float64(y)))) }
	for i, l := range a.Layers {
		for h, x := range l.Heads {
			y := b.Layers[i].Heads[h]
			if x.State == nil {
				far(x.Weight, y.Weight)
				far(x.Entropy, y.Entropy)
				continue
			}
			far(x.Norm, y.Norm)
			far(x.Negative, y.Negative)
			far(x.Wrote, y.Wrote)
			far(x.Read, y.Read)
			if distance(x.Alpha, y.Alpha)+distance(x.Beta, y.Beta) > 2 { // a value on a border may fall to either side
				return math.Inf(1)
			}
		}
	}
	for i := range a.Wrote {
		far(a.Wrote[i].By, b.Wrote[i].By)
		far(a.Read[i].By, b.Read[i].By)
	}
	for i := range a.Looked {
		far(a.Looked[i].By, b.Looked[i].By)
	}
	return d
}

// Gates of a text read in plays are those of its steps, on every device.
func TestReadGates(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := open(t, d, "testdata/golden/qwen3.5-text")
		r, err := m.NewRunner(model.Options{Tokens: 40, Seqs: 1, Slots: 3, Positions: 50, Rows: 100, Trace: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		ids := text(50, m.Config.N)
		gates, err := r.NewSession().ReadGates(context.Background(), ids)
		if err != nil {
			t.Fatal(err)
		}
		s := r.NewSession()
		for i, id := range ids[:12] {
			step, err := s.TraceStep(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			for layer := range 3 {
				hv := m.Config.HV
				tolerance := gputest.Tolerance{RMS: 2e-5, Max: 1e-4}
				gputest.Close(t, "alpha", tolerance, gates[layer].Alpha[i*hv:][:hv], step.Layers[layer].Alpha)
				gputest.Close(t, "beta", tolerance, gates[layer].Beta[i*hv:][:hv], step.Layers[layer].Beta)
			}
		}
		if _, ok := gates[3]; ok || len(gates[2].Beta) != 50*m.Config.HV {
			t.Errorf("got gates of an attention layer, or %d of layer 2", len(gates[2].Beta))
		}
	})
}

func near(t *testing.T, dir, what string, got float32, want float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 2e-5*max(1, math.Abs(want))) {
		t.Errorf("%s: %s: got %v, want %v", dir, what, got, want)
	}
}

// in is the bin of x by counting.
func in(borders []float32, x float32) int {
	for i := len(borders) - 2; i > 0; i-- {
		if x >= borders[i] {
			return i
		}
	}
	return 0
}

func distance(a, b []int) (d int) {
	for i, x := range a {
		d += max(x-b[i], b[i]-x)
	}
	return d
}

// length is |x − a·y|.
func length(x, y []float32, a float64) float64 {
	sum := 0.0
	for i, v := range x {
		d := float64(v)
		if y != nil {
			d -= a * float64(y[i])
		}
		sum += d * d
	}
	return math.Sqrt(sum)
}
