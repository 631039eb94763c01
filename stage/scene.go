// Package stage draws one moment of a model reading a program: the words, the
// recurrent state of every gated-delta-rule head as a heat map, the attention
// of every attention head, and the likeliest next words beside the truth. It
// draws with ebiten, the same in the page's frame and in a desktop window, and
// only when something changed.
//
// It knows nothing of models or devices: the caller fills a [Scene] and hands
// it to [Stage.SetScene]. Layout, colours and hit testing are plain Go.
//
// Dimensions: T words of the program, H heads, K key dim, V value dim.
package stage

// Kind is the kind of a layer's sequence mixer.
type Kind uint8

// The kinds of layers.
const (
	GDN       Kind = iota // gated delta rule: a state [H, K, V]
	Attention             // causal attention: probabilities [H, T, T]
)

// Word is one word of the program.
type Word struct {
	Text string
	Stmt int // index of its statement, -1 for <bos>; a gap is drawn between statements
}

// Layer is what a layer shows after the last word read.
type Layer struct {
	Index int // the layer's number in the model
	Kind  Kind
	Heads int // H

	// GDN
	K, V        int
	State       []float32 // [H, K, V]; nil: not recorded
	Alpha, Beta []float32 // [H] decay and write strength of the last step; nil before the first
	RowNames    []string  // [K], optional: what the rows of the state stand for

	// Attention
	Rows [][]float32 // [t][H, t+1] probabilities of each word read; those after Scene.T are not looked at

	// Diff says that all numbers are differences between two models.
	Diff bool
}

// Guess is a possible next word with its probability.
type Guess struct {
	Text string
	P    float32
}

// Var is a variable of the program. Truth is its true value in words, empty
// while undefined; Belief is what the model would answer, empty when unknown.
type Var struct{ Name, Truth, Belief string }

// alike says whether the likeliest words all have the same probability.
func (s *Scene) alike() bool {
	n := len(s.Next)
	return n > 1 && s.Next[0].P-s.Next[n-1].P < 1e-6
}

// NoPreference is the Belief of a model to which all words are equally likely.
const NoPreference = "\u2013"

// Scene is one moment of a run, as plain data. A stage keeps its slices: what they hold must not
// change afterwards.
type Scene struct {
	// Run is a new number for each new program or model, and for each comparison of two:
	// colour scales start afresh. Within a run what was read does not change.
	Run    int
	Words  []Word
	T      int // index of the last word read; -1 before the first
	Layers []Layer
	Next   []Guess // likeliest next words, best first
	Truth  string  // the word that truly comes next, where the program determines it
	Vars   []Var

	// Answer is the word that the model gave to the program's question, and
	// AnswerTruth the true one; Answer is empty before it was asked,
	// AnswerTruth where the program asks nothing.
	Answer, AnswerTruth string
}

// View says what to show of the scene. The zero value is not the default; see
// [AllHeads].
type View struct {
	// Layer is an index into Scene.Layers and Head one of its heads, shown large
	// and alone; Layer -1 shows all.
	Layer, Head int
}

// AllHeads is the default view.
var AllHeads = View{Layer: -1}

// Theme selects the colours.
type Theme uint8

// The two themes.
const (
	Light Theme = iota
	Dark
)

// fix drops what does not fit its own shape, so that drawing need not check.
func (s *Scene) fix() {
	s.T = min(s.T, len(s.Words)-1)
	for i := range s.Layers {
		l := &s.Layers[i]
		if len(l.State) != l.Heads*l.K*l.V {
			l.State = nil
		}
		if len(l.Alpha) != l.Heads {
			l.Alpha = nil
		}
		if len(l.Beta) != l.Heads {
			l.Beta = nil
		}
		if len(l.RowNames) != l.K {
			l.RowNames = nil
		}
		if l.Rows = l.Rows[:max(min(len(l.Rows), s.T+1), 0)]; len(l.Rows) <= s.T {
			l.Rows = nil
		}
		for t, row := range l.Rows {
			if len(row) != l.Heads*(t+1) {
				l.Rows = nil
				break
			}
		}
	}
}

func (l *Layer) recorded() bool {
	return l.Kind == GDN && l.State != nil || l.Kind == Attention && l.Rows != nil
}

// shape is what the layout depends on.
type shape struct {
	run, words, next, vars, layers int
	asks                           bool
	verdict                        string
}

func (s *Scene) shape() shape {
	sh := shape{run: s.Run, words: len(s.Words), next: len(s.Next), vars: len(s.Vars), asks: s.AnswerTruth != "", verdict: s.verdict()}
	for _, l := range s.Layers {
		sh.layers = sh.layers*31 + int(l.Kind) + 2*l.Heads + 128*l.K + 1<<16*l.V + 1<<24*len(l.RowNames)
		if l.Diff {
			sh.layers++
		}
	}
	return sh
}

// prob returns the probability with which head h at word i looks at word j.
func (l *Layer) prob(h, i, j int) float32 {
	return l.Rows[i][h*(i+1)+j]
}

// strongest returns the word that head h at word i looks at most, or differs most about.
func (l *Layer) strongest(h, i int) (j int, p float32) {
	abs := func(x float32) float32 { return max(x, -x) }
	p = l.prob(h, i, 0)
	for k := 1; k <= i; k++ {
		if q := l.prob(h, i, k); abs(q) > abs(p) || p != p {
			j, p = k, q
		}
	}
	return j, p
}

// verdict is the answer as the strip shows it.
func (s *Scene) verdict() string {
	switch s.Answer {
	case "":
		return string(arrow) + " ?"
	case s.AnswerTruth:
		return string(arrow) + " " + s.Answer + " " + string(tick)
	}
	return string(arrow) + " " + s.Answer + " " + string(cross) + " truth " + s.AnswerTruth
}

// gaze fills dst [T] with how much the last word looks at each word, in the
// head of the view or else in the strongest head of the last attention layer.
// It returns the layer's position, or -1 where there is no attention.
func (s *Scene) gaze(v View, dst []float32) ([]float32, int) {
	dst = dst[:0]
	at := -1
	for i := range s.Layers {
		if l := &s.Layers[i]; l.Kind == Attention && l.Rows != nil && !l.Diff {
			at = i
		}
	}
	one := false
	if at >= 0 && v.Layer >= 0 && v.Layer < len(s.Layers) && s.Layers[v.Layer].Kind == Attention && s.Layers[v.Layer].Rows != nil {
		at, one = v.Layer, true
	}
	if at < 0 || s.T < 0 {
		return dst, -1
	}
	l := &s.Layers[at]
	for j := 0; j <= s.T; j++ {
		var p float32
		for h := range l.Heads {
			if !one || h == v.Head {
				p = max(p, l.prob(h, s.T, j))
			}
		}
		dst = append(dst, p)
	}
	return dst, at
}
