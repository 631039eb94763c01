package shaders

import (
	"math"

	"github.com/x448/float16"
)

// gdnStep runs the gated delta rule over each sequence: state [slots, HV, K, V] from SlotIn to
// SlotOut, rounded to store after every token, o [T, HV, V] the read of every token.
func gdnStep(p GDNParams, K, V int, store uint32, qkv, gates []float32, seqs []Seq, state, o []float32, tick func()) {
	hv := int(p.HV)
	for _, s := range seqs {
		size := hv * K * V
		S := state[int(s.SlotOut)*size:][:size]
		if s.SlotIn == NoSlot {
			clear(S)
		} else {
			copy(S, state[int(s.SlotIn)*size:][:size])
		}
		for t := int(s.Start); t < int(s.Start+s.Count); t++ {
			for h := 0; h < hv; h++ {
				q, k, v := p.heads(qkv, K, V, t, h)
				g, beta := gates[t*2*hv+h], gates[t*2*hv+hv+h]
				deltaRule(S[h*K*V:][:K*V], q, k, v, g, beta, o[(t*hv+h)*V:][:V])
			}
			round(S, store)
			tick()
		}
	}
}

// round rounds S to the nearest numbers of a type, ties to even. What is too large becomes infinite.
func round(S []float32, store uint32) {
	switch store {
	case F16:
		for i, s := range S {
			S[i] = float16.Fromfloat32(s).Float32()
		}
	case BF16:
		for i, s := range S {
			if b := math.Float32bits(s); s == s {
				S[i] = math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
			}
		}
	}
}

// heads returns token t's q [K], k [K] and v [V] of value head h.
func (p *GDNParams) heads(qkv []float32, K, V, t, h int) (q, k, v []float32) {
	row := qkv[t*int(p.Stride)+int(p.Col):]
	hk := h / int(p.HV/p.HK)
	q = row[hk*K:][:K]
	k = row[(int(p.HK)+hk)*K:][:K]
	v = row[2*int(p.HK)*K+h*V:][:V]
	return q, k, v
}

// deltaRule advances S [K, V] by one token and reads it: S ← exp(g)S; u = β(v - Sᵀk);
// S ← S + kuᵀ; o = Sᵀq.
func deltaRule(S, q, k, v []float32, g, beta float32, o []float32) {
	V := len(v)
	alpha := math.Exp(float64(g))
	u := make([]float64, V)
	for i, ki := range k {
		ak := alpha * float64(ki)
		for j, s := range S[i*V:][:V] {
			u[j] += ak * float64(s)
		}
	}
	for j := range u {
		u[j] = float64(beta) * (float64(v[j]) - u[j])
	}
	read := make([]float64, V)
	for i, ki := range k {
		row := S[i*V:][:V]
		for j, s := range row {
			n := alpha*float64(s) + float64(ki)*u[j]
			row[j] = float32(n)
			read[j] += float64(q[i]) * n
		}
	}
	for j, r := range read {
		o[j] = float32(r)
	}
}
