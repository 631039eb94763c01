// Package delta takes a head of the gated delta rule apart, in float64 and from the numbers of a
// trace alone: one step into its parts, and a whole run into who read what from whom.
//
// A step is S ← alpha·S; S ← S − beta·k·(kᵀS); S ← S + beta·k·vᵀ; o = qᵀS, with S [K, V], k and q [K],
// v and o [V]; k and q as the kernel takes them, normalised and q with its scale (arXiv 2412.06464).
package delta

import "math"

// eps is half the distance from 1 to the next float32: the relative error of one rounding.
const eps = 0x1p-24

// decayEps bounds the relative error of exp in WGSL, 3 + 2|x| units in the last place.
func decayEps(alpha float32) float64 {
	if alpha <= 0 {
		return 0
	}
	return 2 * eps * (3 + 2*math.Abs(math.Log(float64(alpha))))
}

// rounding is what storing an element as a type adds to its error: at most rel of the element, or abs
// where that type's numbers lie at a fixed distance.
func rounding(store string) (rel, abs float64) {
	switch store {
	case "bf16":
		return 0x1p-8, 0
	case "f16":
		return 0x1p-11, 0x1p-25
	}
	return 0, 0
}

// least is below what GPUs may take for zero, times what it may be multiplied with.
const least = 0x1p-110

// Step is one step of the delta rule for one head, computed in float64 from the step's own float32
// numbers and given as float32.
type Step struct {
	Kind       string      `json:"kind"` // gdn
	K          int         `json:"K"`
	V          int         `json:"V"`
	Alpha      float32     `json:"alpha"`
	Beta       float32     `json:"beta"`
	Eigenvalue float32     `json:"eigenvalue"` // of the transition along k: alpha·(1 − beta·|k|²)
	Key        []float32   `json:"k"`          // [K]
	Query      []float32   `json:"q"`          // [K]
	Value      []float32   `json:"v"`          // [V]
	Before     [][]float32 `json:"before"`     // [K][V]
	Decayed    [][]float32 `json:"decayed"`    // alpha·Before
	Read       []float32   `json:"read"`       // [V]: kᵀDecayed
	Erase      [][]float32 `json:"erase"`      // −beta·k·Read
	Erased     [][]float32 `json:"erased"`     // Decayed + Erase
	Write      [][]float32 `json:"write"`      // beta·k·vᵀ
	Written    [][]float32 `json:"written"`    // Erased + Write
	Out        []float32   `json:"out"`        // [V]: qᵀWritten
	State      [][]float32 `json:"state"`      // what the kernel left
	// Worst is the distance of State from Written, and Bound what float32 explains of it, in the element
	// where the one is largest beside the other: K+2 roundings in kᵀS, the error of exp, and one rounding
	// for each other operation.
	Worst float64 `json:"worst"`
	Bound float64 `json:"bound"`

	written, slack []float64 // [K, V]
}

// Anatomy takes a step apart: before [K, V], nil for zeros, k and q [K], v [V], and after [K, V] as the
// kernel left it.
func Anatomy(before, k, q, v []float32, alpha, beta float32, after []float32) *Step {
	K, V := len(k), len(v)
	if before == nil {
		before = make([]float32, K*V)
	}
	a, b := float64(alpha), float64(beta)
	s := &Step{Kind: "gdn", K: K, V: V, Alpha: alpha, Beta: beta, Key: k, Query: q, Value: v, Before: matrix(before, V), State: matrix(after, V)}
	decayed, erase, erased, write := make([]float64, K*V), make([]float64, K*V), make([]float64, K*V), make([]float64, K*V)
	read, size, out := make([]float64, V), make([]float64, V), make([]float64, V) // size: Σ|k||S|
	s.written, s.slack = make([]float64, K*V), make([]float64, K*V)
	square := 0.0
	for i, ki := range k {
		square += float64(ki) * float64(ki)
		for j := range V {
			d := a * float64(before[i*V+j])
			decayed[i*V+j] = d
			read[j] += float64(ki) * d
			size[j] += math.Abs(float64(ki) * d)
		}
	}
	inDecay := decayEps(alpha)
	for i, ki := range k {
		for j := range V {
			at := i*V + j
			erase[at] = -b * float64(ki) * read[j]
			erased[at] = decayed[at] + erase[at]
			write[at] = b * float64(ki) * float64(v[j])
			s.written[at] = erased[at] + write[at]
			out[j] += float64(q[i]) * s.written[at]
			inU := (eps*float64(K+4)+inDecay)*size[j] + 3*eps*math.Abs(float64(v[j]))
			s.slack[at] = least + math.Abs(b*float64(ki))*inU + (2*eps+inDecay)*math.Abs(decayed[at]) + 2*eps*(math.Abs(erase[at]+write[at])+math.Abs(s.written[at]))
		}
	}
	s.Eigenvalue = float32(a * (1 - b*square))
	s.Decayed, s.Erase, s.Erased, s.Write, s.Written = matrix(narrow(decayed), V), matrix(narrow(erase), V), matrix(narrow(erased), V), matrix(narrow(write), V), matrix(narrow(s.written), V)
	s.Read, s.Out = narrow(read), narrow(out)
	s.Stored("")
	return s
}

// Stored sets Worst and Bound for a state that is rounded to bf16 or f16, a value of model.Switches.
func (s *Step) Stored(store string) {
	rel, abs := rounding(store)
	s.Worst, s.Bound = 0, 0
	for i, w := range s.written {
		s.Worst, s.Bound = nearer(s.Worst, s.Bound, math.Abs(float64(s.State[i/s.V][i%s.V])-w), s.slack[i]+max(rel*math.Abs(w), abs))
	}
}

// nearer returns whichever of two errors is the larger beside its bound, of which the first is 0 where
// there is no error yet. NaN is larger than all.
func nearer(worst, bound, e, b float64) (float64, float64) {
	if worst != worst || bound > 0 && e*bound <= worst*b {
		return worst, bound
	}
	return e, b
}

// Map is the delta rule's own attention map: out_i = Σ_j Rows[i][j]·v_j, where
//
//	Rows[i][j] = beta_j · q_iᵀ · A_i · A_(i−1) ⋯ A_(j+1) · k_j,  A_l = alpha_l·(I − beta_l·k_l·k_lᵀ)
//
// is what token i reads of what token j wrote, after all that came between. It grows by a token at a
// time; the zero value is the map of no token.
type Map struct {
	Store string      `json:"-"`    // the type that the kernel rounds its state to, as in model.Switches
	Rows  [][]float32 `json:"rows"` // [T][i+1], signed
	// Worst is the distance of Rows·v from what the kernel gave, and Bound what float32 explains of it,
	// in the element where the one is largest beside the other. With M the largest norm that a column of
	// S has had, a token adds at most an error of M times the rounding of sums over K, which add up like
	// a random walk, and of exp, which may be the same each time: after n tokens
	// |q|·M·(4·2⁻²⁴·√(K+8)·√(n+3) + n·(error of exp)).
	Worst float64 `json:"worst"`
	Bound float64 `json:"bound"`

	tokens []token
	base   int       // tokens before the state was last replaced
	start  []float64 // that state [K, V]; nil is zeros
	state  []float64 // [K, V] after the last token
	norm   float64   // the largest of a column of state so far
	decay  float64   // sum of the errors of exp
}

// token is what a token brought, and the row vector that reads it.
type token struct {
	k, v        []float64
	alpha, beta float64
}

// Append adds the row of the next token: k and q [K], v [V], and out [V] as the kernel gave it, nil if
// it is not to be compared. It costs O(T·K + K·V + T·V).
func (m *Map) Append(k, q, v []float32, alpha, beta float32, out []float32) {
	t := token{wide(k), wide(v), float64(alpha), float64(beta)}
	m.tokens = append(m.tokens, t)
	m.advance(t)
	m.decay += decayEps(alpha)

	n, V := len(m.tokens), len(v)
	row := make([]float64, n)
	r := wide(q)
	got := make([]float64, V)
	for j := n - 1; j >= m.base; j-- {
		t := &m.tokens[j]
		along := dot(r, t.k)
		row[j] = t.beta * along
		for i, ki := range t.k {
			r[i] = t.alpha * (r[i] - t.beta*along*ki)
		}
		for c, vc := range t.v {
			got[c] += row[j] * vc
		}
	}
	m.Rows = append(m.Rows, narrow(row))
	if out == nil {
		return
	}
	for i, ri := range r {
		if m.start != nil {
			for c, s := range m.start[i*V:][:V] {
				got[c] += ri * s
			}
		}
	}
	rel, abs := rounding(m.Store)
	length, K := math.Sqrt(dot(wide(q), wide(q))), float64(len(k))
	tokens := float64(n - m.base)
	bound := least + length*(m.norm*(4*eps*math.Sqrt(K+8)*math.Sqrt(tokens+3)+m.decay+tokens*rel)+tokens*abs*math.Sqrt(K))
	for c, o := range out {
		m.Worst, m.Bound = nearer(m.Worst, m.Bound, math.Abs(got[c]-float64(o)), bound)
	}
}

// Restart says that the state was replaced by S [K, V], nil for zeros, after the last token: later
// tokens read nothing that was written before.
func (m *Map) Restart(state []float32) {
	m.base, m.start, m.state, m.norm, m.decay = len(m.tokens), nil, nil, 0, 0
	if state != nil {
		m.start, m.state = wide(state), wide(state)
	}
}

// advance moves the state on by a token, and norm with it.
func (m *Map) advance(t token) {
	V := len(t.v)
	if m.state == nil {
		m.state = make([]float64, len(t.k)*V)
	}
	for c := range V {
		along, before, after := 0.0, 0.0, 0.0
		for i, ki := range t.k {
			s := m.state[i*V+c]
			before += s * s
			along += ki * t.alpha * s
		}
		u := t.beta * (t.v[c] - along)
		for i, ki := range t.k {
			s := t.alpha*m.state[i*V+c] + ki*u
			m.state[i*V+c] = s
			after += s * s
		}
		m.norm = max(m.norm, math.Sqrt(before), math.Sqrt(after), math.Abs(t.beta*t.v[c]))
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// matrix views x as rows of v elements.
func matrix(x []float32, v int) [][]float32 {
	rows := make([][]float32, len(x)/v)
	for i := range rows {
		rows[i] = x[i*v:][:v:v]
	}
	return rows
}
