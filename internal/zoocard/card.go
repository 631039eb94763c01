package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/construct"
	"shellgame/task"
)

// archName says what the layers are.
func (m *model) archName() string {
	switch m.Arch {
	case "transformer":
		return "four attention layers with RoPE (Olmo 3 style)"
	case "gdn-neg":
		return "four gated delta rule layers with negative eigenvalues"
	case "gdn-pos":
		return "four gated delta rule layers without negative eigenvalues"
	case "hybrid-neg":
		return "three gated delta rule layers with negative eigenvalues, then attention without RoPE"
	case "hybrid-pos":
		return "three gated delta rule layers without negative eigenvalues, then attention without RoPE"
	}
	return constructedName[m.Task]
}

var constructedName = map[task.Task]string{
	task.StateTracking:    "one gated delta rule layer whose states are the permutation matrix, written down instead of trained",
	task.StateBasedRecall: "three gated delta rule layers and one of attention, written down instead of trained",
}

// describe is the index's one line: layers, and the scores at the longest size
// trained on and at the longest scored.
func (m *model) describe() string {
	s := strings.ToUpper(m.archName()[:1]) + m.archName()[1:]
	if m.eval == nil || len(m.Accuracy) == 0 {
		return s + "."
	}
	last := m.Accuracy[len(m.Accuracy)-1]
	s += ": " + m.Task.Title() + " "
	if len(m.eval.Trained) > 0 {
		if longest := slices.Max(m.eval.Trained); longest != last.N {
			if x, ok := m.scoreAt(longest); ok {
				s += fmt.Sprintf("%.3f at %d, ", x.Accuracy, longest)
			}
		}
	}
	return s + fmt.Sprintf("%.3f at %d (chance %.1f).", last.Accuracy, last.N, m.Task.Chance())
}

func (m *model) scoreAt(n int) (score, bool) {
	for _, x := range m.Accuracy {
		if x.N == n {
			return x, true
		}
	}
	return score{}, false
}

func stderr(p float64, samples int) float64 { return math.Sqrt(p * (1 - p) / float64(samples)) }

// member is one of the models that were trained side by side.
type member struct {
	number  int
	neg, lr float64
	scores  []score
	kept    bool
}

// members returns those that competed for m's place, and those of the other
// eigenvalue setting that were trained beside them.
func (m *model) members() (own, beside []member, err error) {
	for key, acc := range m.eval.Members {
		var x member
		parts := strings.Split(key, ":")
		ok := len(parts) == 3
		if ok {
			var e1, e2, e3 error
			x.number, e1 = strconv.Atoi(parts[0])
			x.neg, e2 = strconv.ParseFloat(parts[1], 64)
			x.lr, e3 = strconv.ParseFloat(parts[2], 64)
			ok = e1 == nil && e2 == nil && e3 == nil
		}
		if !ok {
			return nil, nil, fmt.Errorf("got member %q, want NUMBER:NEG:LR", key)
		}
		if x.scores, err = acc.scores(); err != nil {
			return nil, nil, err
		}
		if x.neg == m.eval.Member.Neg {
			own = append(own, x)
		} else {
			beside = append(beside, x)
		}
	}
	byNumber := func(a, b member) int { return cmp.Compare(a.number, b.number) }
	slices.SortFunc(own, byNumber)
	slices.SortFunc(beside, byNumber)
	best := -1
	for i, x := range own {
		if len(x.scores) != len(m.Accuracy) {
			return nil, nil, fmt.Errorf("got %d sizes for member %d, want %d", len(x.scores), x.number, len(m.Accuracy))
		}
		if best < 0 || x.hardest() > own[best].hardest() {
			best = i
		}
	}
	if best < 0 || own[best].lr != m.eval.Member.LR {
		return nil, nil, fmt.Errorf("got a kept member with learning rate %g, want that of the best at the hardest size", m.eval.Member.LR)
	}
	own[best].kept = true
	return own, beside, nil
}

func (x member) hardest() float64 { return x.scores[len(x.scores)-1].Accuracy }

// card writes a checkpoint's README.md.
func card(m model) ([]byte, error) {
	if m.Constructed {
		return constructedCard(m)
	}
	if m.eval == nil {
		return nil, fmt.Errorf("got no eval.json, want one for a trained checkpoint")
	}
	own, beside, err := m.members()
	if err != nil {
		return nil, fmt.Errorf("eval.json: %w", err)
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	c, e := m.shape, m.eval

	p("---\nlicense: mit\ntags: [shell-game, %s, %s]\n---\n", m.Task, m.Arch)
	p("# %s\n", m.Name)
	p("%s\n", m.Description)
	p("A small model trained on one synthetic task, %s, to be looked into. It knows the 288 words of `../tokenizer.json` and nothing else.\n", m.Task.Title())

	p("## Model\n")
	p("- %d parameters, %s; `model_type` %s, published layout, weights in float16 (%d bytes).", m.Params, m.archName(), c.ModelType, m.Files[1].Bytes)
	p("- %d layers (%s), D = %d, SwiGLU of %d, %d words, at most %d positions.", len(c.Layers), m.Layers, c.D, c.FF, c.N, c.MaxPos)
	if c.HV > 0 {
		factor := "beta = 2 sigmoid, so that a step can reflect (eigenvalues down to -1)"
		if !c.NegEig {
			factor = "beta = sigmoid, so that no eigenvalue is negative"
		}
		p("- GDN layers: %d heads, key dimension %d, value dimension %d, convolution of %d; %s.", c.HV, c.K, c.V, c.W, factor)
	}
	if c.Heads > 0 {
		p("- Attention: %d heads of %d.", c.Heads, c.HeadDim)
	} else {
		p("- transformers (5.17) itself refuses an `olmo_hybrid` without attention layers; this project's loader accepts it.")
	}

	p("\n## Scores\n")
	p("Share of right answers to the final question, %d fresh programs per size without asserts in between, after rounding to float16. Chance is %.1f; the error is binomial.\n", e.Samples, m.Task.Chance())
	guess := guesses[m.Task]
	head, line := "| n | accuracy | error | trained on |", "|--:|--:|--:|:--|"
	if guess != nil {
		head, line = head+" guess without tracking |", line+"--:|"
		if m.Task == task.Recall {
			head = strings.Replace(head, "without tracking", "without lookup", 1)
		}
	}
	p("%s\n%s", head, line)
	longest := slices.Max(e.Trained)
	for _, x := range m.Accuracy {
		trained := "yes"
		switch {
		case x.N > longest:
			trained = "no, longer"
		case !slices.Contains(e.Trained, x.N):
			trained = "no, shorter"
		}
		row := fmt.Sprintf("| %d | %.4f | %.4f | %s |", x.N, x.Accuracy, stderr(x.Accuracy, e.Samples), trained)
		if guess != nil {
			row += fmt.Sprintf(" %.4f |", guess(x.N))
		}
		p("%s", row)
	}
	p("\n%s\n", m.verdict())
	switch m.Task {
	case task.Recall:
		p("Guess without lookup: always answering with the list's more frequent bit.\n")
	case task.StateBasedRecall:
		p("Guess without tracking: answering with the bit that most of the five pointers point to, whichever variable is asked. A score near it shows no state tracking. (At small n a model can do a little better, by knowing which variables were never swapped.)\n")
	}

	p("## How it was made\n")
	p("PyTorch, AdamW, batch %d, %d steps, %d seconds on one NVIDIA H200 together with the members trained beside it, learning rate %g; `../RECIPE.md` has the rest.", e.Batch, e.Steps, e.Seconds, e.Member.LR)
	p("%s\n", tries(m, own))
	head, line = "| member | learning rate |", "|--:|--:|"
	for _, x := range m.Accuracy {
		head, line = head+fmt.Sprintf(" %d |", x.N), line+"--:|"
	}
	p("%s |\n%s:--|", head, line)
	for _, x := range own {
		row := fmt.Sprintf("| %d | %g |", x.number, x.lr)
		for _, s := range x.scores {
			row += fmt.Sprintf(" %.3f |", s.Accuracy)
		}
		if x.kept {
			row += " kept |"
		} else {
			row += " |"
		}
		p("%s", row)
	}
	if n, diff := m.drift(own); diff > 0 {
		p("\nThe members' scores are those reported by the training run, measured apart from the scores above; the kept one's differ from those by up to %.4f (at n = %d). Trust the scores above.", diff, n)
	}
	switch {
	case strings.HasSuffix(m.Arch, "-pos"):
		p("\nThe checkpoint with negative eigenvalues, `%s`, is the best of %d members, this one had a single try: say so wherever the two are compared.", strings.TrimSuffix(m.Name, "pos")+"neg", len(beside))
	case strings.HasSuffix(m.Arch, "-neg"):
		p("\nThe checkpoint without negative eigenvalues, `%s`, had a single try: say so wherever the two are compared.", strings.TrimSuffix(m.Name, "neg")+"pos")
	}
	p("")
	b.WriteString(legal)
	return []byte(b.String()), nil
}

const legal = `## Licence and citation

MIT, see ` + "`../LICENSE`" + `. Tasks and architecture follow Merrill, Li, Romero, Svete, Costello et al., "Olmo Hybrid: From Theory to Practice and Back", 2026, arXiv 2604.03444; what differs from the paper is in ` + "`../RECIPE.md`" + `. ` + "`../CITATION.cff`" + ` has both in machine-readable form.
`

// verdict names the sizes at which the model fails.
func (m *model) verdict() string {
	var solved, part, chance []string
	c := m.Task.Chance()
	for _, x := range m.Accuracy {
		n := strconv.Itoa(x.N)
		switch {
		case x.Accuracy >= 0.99:
			solved = append(solved, n)
		case x.Accuracy <= c+3*stderr(c, m.eval.Samples):
			chance = append(chance, n)
		default:
			part = append(part, n)
		}
	}
	list := func(sizes []string, none string) string {
		if len(sizes) == 0 {
			return none
		}
		return "n = " + strings.Join(sizes, ", ")
	}
	return fmt.Sprintf("Solved (0.99 or more): %s. In between: %s. At chance, within three standard errors: %s.",
		list(solved, "no size"), list(part, "no size"), list(chance, "no size"))
}

func tries(m model, own []member) string {
	longest := m.Accuracy[len(m.Accuracy)-1].N
	if len(own) == 1 {
		return "One member was trained in this setting; it is the one kept."
	}
	return fmt.Sprintf("%d members were trained in this setting, and the best at n = %d was kept, as in the paper.", len(own), longest)
}

// drift is the largest difference between the kept member's score in training
// and the final one.
func (m *model) drift(own []member) (n int, diff float64) {
	for _, x := range own {
		if !x.kept {
			continue
		}
		for i, s := range x.scores {
			if d := math.Abs(s.Accuracy - m.Accuracy[i].Accuracy); d > diff {
				n, diff = s.N, d
			}
		}
	}
	return n, diff
}

// guesses are the best scores of a model that knows the bits, but not which of
// them is asked for.
var guesses = map[task.Task]func(n int) float64{
	task.Recall:           func(m int) float64 { return weightedMajority(slices.Repeat([]int{1}, m)) },
	task.StateBasedRecall: pointedMajority,
}

// weightedMajority is the expectation of max(ones, zeros) / total over fair
// bits of the given weights.
func weightedMajority(weights []int) float64 {
	p := []float64{1} // by the weight of ones so far
	for _, w := range weights {
		next := make([]float64, len(p)+w)
		for ones, x := range p {
			next[ones] += x / 2
			next[ones+w] += x / 2
		}
		p = next
	}
	total, sum := len(p)-1, 0.0
	for ones, x := range p {
		sum += x * float64(max(ones, total-ones))
	}
	return sum / float64(total)
}

// pointedMajority is the expected share of the more frequent value among the
// bits that five pointers, uniform with replacement, point to among m.
func pointedMajority(m int) float64 {
	var sum float64
	var draw func(left int, hits []int, p float64)
	draw = func(left int, hits []int, p float64) {
		if left == 0 {
			sum += p * weightedMajority(hits)
			return
		}
		for i := range hits {
			next := slices.Clone(hits)
			next[i]++
			draw(left-1, next, p/float64(m))
		}
		if fresh := m - len(hits); fresh > 0 {
			draw(left-1, append(slices.Clone(hits), 1), p*float64(fresh)/float64(m))
		}
	}
	draw(task.NumVars, nil, 1)
	return sum
}

// constructedCard is the construction's own card, and what was measured since.
func constructedCard(m model) ([]byte, error) {
	files, err := construct.Files(string(m.Task))
	if err != nil {
		return nil, err
	}
	own, e := files["README.md"], m.eval
	if e == nil {
		return own, nil
	}
	var b strings.Builder
	b.Write(own)
	fmt.Fprintf(&b, "\n## Scores\n\nShare of right answers to the final question, %d fresh programs per size", e.Samples)
	if e.Device != "" {
		fmt.Fprintf(&b, ", on %s", e.Device)
		if e.Adapter != "" {
			fmt.Fprintf(&b, " (%s)", e.Adapter)
		}
	}
	fmt.Fprintf(&b, ". Chance is %.1f; the error is binomial.\n\n| n | accuracy | error |\n|--:|--:|--:|\n", m.Task.Chance())
	for _, x := range m.Accuracy {
		fmt.Fprintf(&b, "| %d | %.4f | %.4f |\n", x.N, x.Accuracy, stderr(x.Accuracy, e.Samples))
	}
	return []byte(b.String()), nil
}
