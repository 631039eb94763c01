package task

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Frozen: version 1 gives these programs for ever.
func TestGenerateGolden(t *testing.T) {
	for _, c := range []struct {
		task        Task
		n           int
		seed, index uint64
		want        string
	}{
		{StateTracking, 4, 1, 0, "a,b,c,d,e=range(5) c,d=d,c a,d=d,a b,c=c,b b,c=c,b assert e== 4"},
		{StateTracking, 8, 1, 255, "a,b,c,d,e=range(5) b,d=d,b a,e=e,a a,d=d,a a,d=d,a a,c=c,a c,e=e,c a,c=c,a a,c=c,a assert a== 2"},
		{Recall, 4, 1, 0, "bits=[ 1, 1, 0, 1, ] e= 2 assert bits[e]== 0"},
		{Recall, 16, 7, 3, "bits=[ 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, ] e= 8 assert bits[e]== 1"},
		{StateBasedRecall, 4, 1, 0, "bits=[ 1, 0, 0, 1, ] a,b,c,d,e= 1, 1, 2, 0, 2, a,b=b,a d,e=e,d a,b=b,a c,e=e,c assert bits[c]== 1"},
		{StateBasedRecall, 8, 1 << 53, 1, "bits=[ 1, 0, 1, 0, 1, 1, 1, 0, ] a,b,c,d,e= 0, 2, 4, 3, 0, d,e=e,d a,c=c,a b,e=e,b a,c=c,a a,b=b,a a,b=b,a a,b=b,a c,d=d,c assert bits[c]== 1"},
	} {
		got := Generate(c.task, c.n, c.seed, c.index).Canonical()
		if got != c.want {
			t.Errorf("Generate(%s, %d, %d, %d):\n got %s\nwant %s", c.task, c.n, c.seed, c.index, got, c.want)
		}
	}
	if got, want := GenerateSBR(3, 2, 9, 4).Canonical(), "bits=[ 0, 1, 0, ] a,b,c,d,e= 1, 0, 2, 0, 1, a,d=d,a a,d=d,a assert bits[b]== 0"; got != want {
		t.Errorf("GenerateSBR(3, 2, 9, 4):\n got %s\nwant %s", got, want)
	}
	if GenVersion != 1 {
		t.Error("a new generator version needs its own golden programs beside these")
	}
}

// The documented derivation, spelled out once more by other means.
func TestGenerateKey(t *testing.T) {
	const seed, index, n = 5, 9, 6
	var want strings.Builder
	want.WriteString("a,b,c,d,e=range(5)")
	d := newDraws(1, 0, n, seed, index)
	for range n {
		want.WriteString(" " + words[22+int(float64(d.pcg.Uint64()>>11)/(1<<53)*10)])
	}
	got := Generate(StateTracking, n, seed, index).Canonical()
	if !strings.HasPrefix(got, want.String()+" assert ") {
		t.Errorf("got %s, want it to begin with %s", got, want.String())
	}
	seen := map[string]bool{}
	for i := range uint64(4) {
		for s := range uint64(4) {
			for _, p := range []*Program{Generate(StateTracking, 64, s, i), Generate(Recall, 128, s, i), Generate(StateBasedRecall, 64, s, i), GenerateSBR(64, 63, s, i)} {
				if seen[p.Canonical()] {
					t.Errorf("seed %d index %d repeats a program", s, i)
				}
				seen[p.Canonical()] = true
			}
		}
	}
}

func TestGeneratePanics(t *testing.T) {
	for _, f := range []func(){
		func() { Generate(StateTracking, 513, 1, 0) },
		func() { Generate("x", 4, 1, 0) },
		func() { GenerateSBR(129, 4, 1, 0) },
		func() { GenerateSBR(4, -1, 1, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		}()
	}
}

// Every choice is fair: chi-squared over 2,000 programs, five sigma.
func TestGenerateIsFair(t *testing.T) {
	fair := func(name string, counts []int) {
		total := 0
		for _, c := range counts {
			total += c
		}
		want, chi := float64(total)/float64(len(counts)), 0.0
		for _, c := range counts {
			chi += (float64(c) - want) * (float64(c) - want) / want
		}
		k := float64(len(counts) - 1)
		if chi > k+5*math.Sqrt(2*k) {
			t.Errorf("%s: counts %v, chi-squared %.1f for %v degrees of freedom", name, counts, chi, k)
		}
	}
	swaps, asked, answers := make([]int, 10), make([]int, 5), make([]int, 5)
	bitv, pointers, indices := make([]int, 2), make([]int, 8), make([]int, 8)
	for i := range uint64(2000) {
		p := Generate(StateTracking, 8, 3, i)
		for _, tok := range p.Tokens() {
			if k := tok.ID - idSwap; k >= 0 && k < 10 {
				swaps[k]++
			}
		}
		q, _ := p.Query()
		asked[q.Var]++
		answers[q.Answer]++
		p = Generate(StateBasedRecall, 8, 3, i)
		for _, x := range p.After(1).Vars {
			pointers[x]++
		}
		for _, b := range p.Final().Bits {
			bitv[b]++
		}
		indices[Generate(Recall, 8, 3, i).Stmts()[1].Value]++
	}
	fair("swaps", swaps)
	fair("variables asked", asked)
	fair("answers", answers)
	fair("bits", bitv)
	fair("pointers", pointers)
	fair("indices", indices)
}

func generated(t *rapid.T) *Program {
	seed, index := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "index")
	if rapid.Bool().Draw(t, "free sizes") {
		return GenerateSBR(rapid.IntRange(1, MaxBits).Draw(t, "m"), rapid.IntRange(0, MaxSwaps).Draw(t, "n"), seed, index)
	}
	task := rapid.SampledFrom(Tasks()).Draw(t, "task")
	most := MaxBits
	if task == StateTracking {
		most = MaxSwaps
	}
	return Generate(task, rapid.IntRange(1, most).Draw(t, "n"), seed, index)
}

func TestGeneratedProgramsParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := generated(t)
		checkSpans(t, p)
		if p.Source() != p.Python() {
			t.Fatalf("source %q is not its Python %q", p.Source(), p.Python())
		}
		if len(p.Check()) != 0 {
			t.Fatalf("a generated program states a falsehood: %v", p.Check())
		}
		q, ok := p.Query()
		if !ok || q.Pos != len(p.Tokens())-2 || p.Tokens()[q.Pos+1].ID != q.AnswerID() || q.Stated != q.Answer {
			t.Fatalf("query %+v, %t does not lead to the last token", q, ok)
		}
		same := func(name, text string) *Program {
			back, err := Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(p.IDs(), back.IDs()); diff != "" {
				t.Fatalf("%s: ids differ:\n%s", name, diff)
			}
			for i := range p.Stmts() {
				if diff := cmp.Diff(p.After(i), back.After(i)); diff != "" {
					t.Fatalf("%s: truth after statement %d:\n%s", name, i, diff)
				}
			}
			return back
		}
		same("canonical", p.Canonical())
		back := same("Python", p.Python())
		if diff := cmp.Diff(p.Stmts(), back.Stmts()); diff != "" {
			t.Fatalf("statements:\n%s", diff)
		}
		if diff := cmp.Diff(p.Tokens(), back.Tokens()); diff != "" {
			t.Fatalf("tokens:\n%s", diff)
		}
		ids, err := Encode(p.Words())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ids, p.IDs()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// sketch draws a program as Python writes it, in free style, that may well use
// what is not defined or lies outside the list. Its asserts are true where it
// runs.
func sketch(t *rapid.T) string {
	letter := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	blank := rapid.SampledFrom([]string{"", "", " ", "  ", "\t"})
	number := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, 127))
	var b strings.Builder
	join := func(xs []string) string {
		var s strings.Builder
		for i, x := range xs {
			if i > 0 {
				s.WriteString(",")
			}
			s.WriteString(blank.Draw(t, "blank") + x + blank.Draw(t, "blank"))
		}
		if len(xs) > 1 && rapid.Bool().Draw(t, "trailing comma") {
			s.WriteString(",")
		}
		if len(xs) == 1 {
			return strings.TrimSpace(s.String())
		}
		switch rapid.IntRange(0, 3).Draw(t, "brackets") {
		case 0:
			return "(" + s.String() + ")"
		case 1:
			return "[" + s.String() + "]"
		}
		return strings.TrimSpace(s.String())
	}
	itoa := func(x int) string { return strings.TrimSuffix(words[idItem+int32(x)], ",") }
	names := func(n int) []string {
		return rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "names")[:n]
	}
	if rapid.IntRange(0, 4).Draw(t, "start") > 0 {
		b.WriteString("bits=[0,1,1,0,1,0,1,1]\na,b,c,d,e=range(5)\n")
	}
	for range rapid.IntRange(1, 12).Draw(t, "statements") {
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			var list []string
			for range rapid.IntRange(0, 12).Draw(t, "m") {
				list = append(list, itoa(rapid.IntRange(0, 1).Draw(t, "bit")))
			}
			b.WriteString("bits" + blank.Draw(t, "blank") + "=[" + strings.Join(list, ","+blank.Draw(t, "blank")) + "]")
		case 1, 2:
			n := rapid.IntRange(1, 5).Draw(t, "variables")
			var xs []string
			for range n {
				xs = append(xs, itoa(number.Draw(t, "value")))
			}
			b.WriteString(join(names(n)) + "=" + join(xs))
		case 3:
			n := rapid.IntRange(2, 5).Draw(t, "variables")
			b.WriteString(join(names(n)) + "=" + rapid.SampledFrom([]string{"range(N)", "range( 0, N)", "(range(N))", "range(0,N,1)"}).Draw(t, "range"))
			s := strings.ReplaceAll(b.String(), "N", itoa(n))
			b.Reset()
			b.WriteString(s)
		case 4, 5, 6:
			xy := names(2)
			b.WriteString(join(xy) + blank.Draw(t, "blank") + "=" + join([]string{xy[1], xy[0]}))
		case 7:
			v := letter.Draw(t, "variable")
			b.WriteString("assert " + blank.Draw(t, "blank") + v + blank.Draw(t, "blank") + "==" + itoa(number.Draw(t, "stated")))
		case 8:
			v := letter.Draw(t, "variable")
			b.WriteString("assert bits[" + v + blank.Draw(t, "blank") + "] ==" + blank.Draw(t, "blank") + itoa(rapid.IntRange(0, 1).Draw(t, "stated")))
		}
		b.WriteString(rapid.SampledFrom([]string{"\n", "\n", ";\n", "; ", " # so\n", "\n\n"}).Draw(t, "end"))
	}
	return b.String()
}

// The truth is Python's: the same programs are accepted, the same asserts fail,
// the same values stand at the end. One process runs them all.
func TestAgreesWithPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	type run struct {
		Source string  `json:"source"`
		Vars   []int16 `json:"vars"`
		Bits   []int   `json:"bits"`
		Wrong  []int   `json:"wrong"` // lines whose assert fails
		Error  string  `json:"error"`
	}
	var in []run
	for i := range 600 {
		in = append(in, run{Source: rapid.Custom(sketch).Example(i)})
	}
	for i := range 150 {
		in = append(in, run{Source: rapid.Custom(generated).Example(i).Python()})
	}
	const script = `
import ast, json, sys
out = []
for r in json.load(sys.stdin):
    env, wrong, error = {}, [], ""
    try:
        for s in ast.parse(r["source"]).body:
            try:
                exec(compile(ast.Module([s], []), "program", "exec"), env)
            except AssertionError:
                wrong.append(s.lineno)
    except Exception as e:
        error = type(e).__name__
    r["vars"] = [env.get(v, -1) for v in "abcde"]
    r["bits"], r["wrong"], r["error"] = env.get("bits"), wrong, error
    out.append(r)
json.dump(out, sys.stdout)
`
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", script)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), &stderr
	raw, err = cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, stderr.String())
	}
	var out []run
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	accepted, wrong := 0, 0
	for i, want := range out {
		p, err := Parse(want.Source)
		if (err == nil) != (want.Error == "") {
			t.Errorf("program %d: Parse says %v, Python %q:\n%s", i, err, want.Error, want.Source)
			continue
		}
		if err != nil {
			continue
		}
		accepted++
		got := run{Source: want.Source}
		final := p.Final()
		got.Vars = final.Vars[:]
		if final.Bits != nil {
			got.Bits = []int{}
			for _, b := range final.Bits {
				got.Bits = append(got.Bits, int(b))
			}
		}
		got.Wrong = []int{}
		for _, f := range p.Check() {
			got.Wrong = append(got.Wrong, f.Line)
			wrong++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("program %d (-python +ours):\n%s\n%s", i, diff, want.Source)
		}
	}
	if refused := len(out) - accepted; len(out) != len(in) || accepted < 300 || refused < 100 || wrong < 20 {
		t.Errorf("of %d programs %d came back, %d ran, %d were refused, %d asserts failed: the sketches cover too little", len(in), len(out), accepted, refused, wrong)
	}
	t.Logf("%d programs ran in both, %d were refused by both, %d asserts failed in both", accepted, len(out)-accepted, wrong)
}

func BenchmarkGenerate(b *testing.B) {
	for _, task := range Tasks() {
		b.Run(string(task)+"/128", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int32, 0, 512)
			for i := range uint64(b.N) {
				dst = Generate(task, 128, 1, i).AppendIDs(dst[:0])
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	src := Generate(StateBasedRecall, 128, 1, 0).Canonical()
	b.ReportAllocs()
	for range b.N {
		if _, err := Parse(src); err != nil {
			b.Fatal(err)
		}
	}
}
