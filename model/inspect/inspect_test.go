package inspect_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

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
