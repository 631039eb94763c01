//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shellgame/task"
)

// traced is a trace as another program reads it.
type traced struct {
	Version int `json:"version"`
	Model   struct {
		Name   string `json:"name"`
		Params int    `json:"params"`
		Layers []struct {
			Kind    string `json:"kind"`
			Heads   int    `json:"heads"`
			KVHeads int    `json:"kv_heads"`
			K       int    `json:"k"`
			V       int    `json:"v"`
		} `json:"layers"`
	} `json:"model"`
	Device  string `json:"device"`
	Program string `json:"program"`
	Steps   []struct {
		T    int    `json:"t"`
		ID   int    `json:"id"`
		Word string `json:"word"`
		Span [2]int `json:"span"`
		Top  []struct {
			ID   int     `json:"id"`
			Word string  `json:"word"`
			P    float64 `json:"p"`
		} `json:"top"`
		Layers []struct {
			Layer int           `json:"layer"`
			Kind  string        `json:"kind"`
			Q     [][]float64   `json:"q"`
			K     [][]float64   `json:"k"`
			V     [][]float64   `json:"v"`
			Alpha []float64     `json:"alpha"`
			Beta  []float64     `json:"beta"`
			State [][][]float64 `json:"state"`
			Rows  [][]float64   `json:"rows"`
		} `json:"layers"`
		Truth struct {
			Vars   map[string]int `json:"vars"`
			Answer string         `json:"answer"`
		} `json:"truth"`
	} `json:"steps"`
}

const traceProgram = "bits=[0, 1,1] a,b,c,d,e=2,0,1,1,2\na,c=c,a  e,b=b,e assert bits[a]=="

func trace(t *testing.T, args ...string) (traced, string) {
	t.Helper()
	code, out, err := command(append([]string{"trace", "--device", "cpu"}, args...)...)
	if code != exitOK || err != "" {
		t.Fatalf("trace %v: exit %d: %s", args, code, err)
	}
	oneLineOnly(t, "stdout", out)
	var tr traced
	if err := json.Unmarshal([]byte(out), &tr); err != nil {
		t.Fatal(err)
	}
	return tr, out
}

func TestTraceTellsTheProgram(t *testing.T) {
	tr, _ := trace(t, "--model", filepath.Join(zoo, "sbr-constructed"), traceProgram)
	p, err := task.Parse(traceProgram)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Version != 1 || tr.Device != "cpu" || tr.Model.Name != "sbr-constructed" || tr.Program != p.Canonical() || len(tr.Steps) != len(p.Tokens()) {
		t.Fatalf("got version %d of %s on %s, %d steps of %q, want %d of %q", tr.Version, tr.Model.Name, tr.Device, len(tr.Steps), tr.Program, len(p.Tokens()), p.Canonical())
	}
	for i, s := range tr.Steps {
		tok := p.Tokens()[i]
		if s.T != i || s.ID != int(tok.ID) || s.Word != tok.Word() || s.Span != [2]int{tok.Start, tok.End} {
			t.Errorf("step %d: got %d %d %q %v, want %d %q [%d %d]", i, s.T, s.ID, s.Word, s.Span, tok.ID, tok.Word(), tok.Start, tok.End)
		}
		if len(s.Top) != 8 {
			t.Fatalf("step %d: %d candidates, want 8", i, len(s.Top))
		}
		sum := 0.0
		for k, c := range s.Top {
			sum += c.P
			if c.Word != task.Word(int32(c.ID)) || k > 0 && c.P > s.Top[k-1].P {
				t.Errorf("step %d: candidate %d is %d %q at %v, after %v", i, k, c.ID, c.Word, c.P, s.Top[max(k-1, 0)].P)
			}
		}
		if sum > 1+1e-5 {
			t.Errorf("step %d: the candidates' probabilities sum to %v", i, sum)
		}
		for v, want := range p.At(i).Vars {
			got, ok := s.Truth.Vars[task.Var(v).String()]
			if ok != (want >= 0) || ok && got != int(want) {
				t.Errorf("step %d: truth of %s: got %d %v, want %d", i, task.Var(v), got, ok, want)
			}
		}
		if (s.Truth.Answer != "") != (i == len(tr.Steps)-1) {
			t.Errorf("step %d: answer %q", i, s.Truth.Answer)
		}
	}
	last := tr.Steps[len(tr.Steps)-1]
	if want, _ := p.Answer(); last.Truth.Answer != want || last.Top[0].Word != want {
		t.Errorf("got answer %s and %s from the model, want %s", last.Truth.Answer, last.Top[0].Word, want)
	}
}

// S in a trace is what the delta rule makes of the step before, with the trace's own q, k, v, alpha
// and beta; an attention row is a probability over what was read.
func TestTraceIsTheDeltaRule(t *testing.T) {
	for _, name := range []string{"sbr-hybrid-neg", "sbr-gdn-pos", "st-constructed"} {
		program := traceProgram
		if name == "st-constructed" {
			program = "a,b,c,d,e=range(5) a,c=c,a c,e=e,c assert e=="
		}
		tr, _ := trace(t, "--model", filepath.Join(zoo, name), program)
		worst, compared := 0.0, 0
		before := map[int][][][]float64{}
		for _, s := range tr.Steps {
			for i, l := range s.Layers {
				shape := tr.Model.Layers[i]
				if l.Kind != shape.Kind || l.Layer != i {
					t.Fatalf("step %d: layer %d is %d %s, want %s", s.T, i, l.Layer, l.Kind, shape.Kind)
				}
				if l.Kind == "attention" {
					for h, row := range l.Rows {
						sum := 0.0
						for _, p := range row {
							sum += p
						}
						if len(l.Rows) != shape.Heads || len(row) != s.T+1 || math.Abs(sum-1) > 1e-5 {
							t.Errorf("%s step %d layer %d head %d: %d of %d rows, %d weights, sum %v", name, s.T, i, h, len(l.Rows), shape.Heads, len(row), sum)
						}
					}
					continue
				}
				if len(l.State) != shape.Heads || len(l.State[0]) != shape.K || len(l.State[0][0]) != shape.V || len(l.Q) != shape.KVHeads {
					t.Fatalf("%s step %d layer %d: shapes differ from the model's", name, s.T, i)
				}
				for h := range l.State {
					k, v := l.K[h*shape.KVHeads/shape.Heads], l.V[h]
					want := deltaRule(before[i], h, k, v, l.Alpha[h], l.Beta[h])
					for r := range want {
						for c := range want[r] {
							worst = math.Max(worst, math.Abs(want[r][c]-l.State[h][r][c]))
							compared++
						}
					}
				}
				before[i] = l.State
			}
		}
		if compared == 0 || !(worst < 1e-5) {
			t.Errorf("%s: S is off by %v over %d values, want 1e-5", name, worst, compared)
		}
	}
}

// deltaRule is S [K, V] after S' = alpha S + k (x) beta (v - (alpha S)^T k), of head h.
func deltaRule(before [][][]float64, h int, k, v []float64, alpha, beta float64) [][]float64 {
	s := make([][]float64, len(k))
	for r := range s {
		s[r] = make([]float64, len(v))
		for c := range v {
			if before != nil {
				s[r][c] = alpha * before[h][r][c]
			}
		}
	}
	for c := range v {
		read := 0.0
		for r := range k {
			read += k[r] * s[r][c]
		}
		for r := range k {
			s[r][c] += k[r] * beta * (v[c] - read)
		}
	}
	return s
}

// --state leaves S out of some steps, and nothing else.
func TestTraceState(t *testing.T) {
	model := filepath.Join(zoo, "st-constructed")
	program := "a,b,c,d,e=range(5) a,c=c,a c,e=e,c a,b=b,a assert e=="
	all, text := trace(t, "--model", model, program)
	_, default_ := trace(t, "--model", model, "--state", "all", program)
	if text != default_ {
		t.Error("--state all differs from the default")
	}
	last := len(all.Steps) - 1
	for state, keep := range map[string]func(i int) bool{
		"last":    func(i int) bool { return i == last },
		"every=3": func(i int) bool { return i%3 == 2 || i == last },
		"every=1": func(int) bool { return true },
	} {
		tr, _ := trace(t, "--model", model, "--state", state, program)
		for i := range tr.Steps {
			got, want := &tr.Steps[i], &all.Steps[i]
			for l := range got.Layers {
				if (got.Layers[l].State != nil) != keep(i) {
					t.Errorf("--state %s: step %d has S: %v", state, i, got.Layers[l].State != nil)
				}
				if !keep(i) {
					want.Layers[l].State = nil
				}
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if !bytes.Equal(a, b) {
				t.Errorf("--state %s: step %d differs from that of all", state, i)
			}
		}
		all, _ = trace(t, "--model", model, program)
	}
}

// The keys of a trace stand in the order of docs/trace.md, and nothing else does.
func TestTraceKeys(t *testing.T) {
	_, text := trace(t, "--model", filepath.Join(zoo, "sbr-hybrid-neg"), traceProgram)
	got, err := orderOf(json.NewDecoder(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	layer := func(kind, rest string) string { return fmt.Sprintf(`{"layer","kind":%s%s}`, kind, rest) }
	gdn := layer("gdn", `,"q":[[]],"k":[[]],"v":[[]],"alpha":[],"beta":[],"state":[[[]]]`)
	attention := layer("attention", `,"rows":[[]]`)
	layers := `[` + gdn + `,` + attention + `]`
	shape := func(kind string) string { return `{"kind":` + kind + `,"heads","kv_heads","k","v"}` }
	step := func(truth string) string {
		return `{"t","id","word","span":[],"top":[{"id","word","p"}],"layers":` + layers + `,"truth":` + truth + `}`
	}
	vars := `{"a","b","c","d","e"}`
	want := `{"version","generator","model":{"name","type","params","layers":[` + shape("gdn") + `,` + shape("attention") + `]},"device","adapter","program","source","steps":[` +
		step(`{"vars":{}}`) + `,` + step(`{"vars":`+vars+`,"bits":`+vars+`}`) + `,` + step(`{"vars":`+vars+`,"bits":`+vars+`,"answer"}`) + `]}`
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// orderOf writes down the keys of a JSON value in their order, and the value of "kind". In arrays
// each form that differs from the one before it stands once.
func orderOf(d *json.Decoder) (string, error) {
	tok, err := d.Token()
	if err != nil {
		return "", err
	}
	var parts []string
	switch tok {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return "", err
			}
			part := fmt.Sprintf("%q", key)
			if key == "kind" {
				kind, err := d.Token()
				if err != nil {
					return "", err
				}
				part += fmt.Sprintf(":%s", kind)
			} else if value, err := orderOf(d); err != nil {
				return "", err
			} else if value != "" {
				part += ":" + value
			}
			parts = append(parts, part)
		}
		_, err := d.Token()
		return "{" + strings.Join(parts, ",") + "}", err
	case json.Delim('['):
		for d.More() {
			value, err := orderOf(d)
			if err != nil {
				return "", err
			}
			if value != "" && (len(parts) == 0 || parts[len(parts)-1] != value) {
				parts = append(parts, value)
			}
		}
		_, err := d.Token()
		return "[" + strings.Join(parts, ",") + "]", err
	}
	return "", nil
}

// --belief adds what the model answers on the side, and changes nothing else.
func TestTraceBelief(t *testing.T) {
	args := []string{"--model", filepath.Join(zoo, "sbr-constructed"), traceProgram}
	_, plain := trace(t, args...)
	_, with := trace(t, append(args, "--belief")...)
	beliefs := regexp.MustCompile(`,"belief":\{"vars":\{(?:"[a-e]":\{[^}]*\},?)*\},"bits":\{(?:"[a-e]":\{[^}]*\},?)*\}\}`)
	if n := len(beliefs.FindAllString(with, -1)); n != 3 {
		t.Errorf("%d beliefs, want 3: after the pointers and each swap", n)
	}
	if beliefs.ReplaceAllString(with, "") != plain {
		t.Error("without its beliefs the trace is not the one made without them")
	}
	if strings.Contains(with, `"right":false`) || !strings.Contains(with, `"a":{"word":"1","p":`) {
		t.Error("the constructed model's belief is not the truth")
	}
	code, _, err := command("trace", "--device", "cpu", "--model", filepath.Join(zoo, "st-constructed"), "  ")
	if code != exitFailed || !strings.Contains(err, "the program is empty") {
		t.Errorf("an empty program: exit %d: %s", code, err)
	}
}
