package shaders

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Sharing a product out to several cores changes no bit of it, residual add and odd sizes included.
func TestMatMulSharedIsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	const rows, d, n = 131, 67, 129
	words := make([]uint32, n*d)
	for i, v := range fill(n * d) {
		words[i] = math.Float32bits(v)
	}
	x, before := fill(rows*d), fill(rows*n)
	product := func(cores int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		y := append([]float32(nil), before...)
		matmul(MatMulParams{D: d, N: n, XStride: d, YStride: n, Add: 1}, rows, x, weights{words, F32, n, d}, y, func() {})
		return y
	}
	if rows*d*n < worthSharing {
		t.Fatal("the product is too small to be shared")
	}
	want := product(1)
	for _, cores := range []int{2, 3, 7} {
		got := product(cores)
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%d cores: element %d: got %v, want %v", cores, i, got[i], want[i])
			}
		}
	}
	for i := range want {
		if want[i] == before[i] {
			t.Fatalf("element %d was not written", i)
		}
	}
}

// Every item is handed out once, however many cores there are.
func TestShareCoversAll(t *testing.T) {
	for _, cores := range []int{1, 2, 5, 64} {
		old := runtime.GOMAXPROCS(cores)
		for _, n := range []int{0, 1, 2, 13, 200} {
			seen := make([]int, n)
			share(n, worthSharing, func(from, to int) {
				for i := from; i < to; i++ {
					seen[i]++
				}
			})
			for i, k := range seen {
				if k != 1 {
					t.Errorf("%d cores, %d items: item %d was handed out %d times", cores, n, i, k)
				}
			}
		}
		runtime.GOMAXPROCS(old)
	}
}
