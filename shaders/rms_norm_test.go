package shaders_test

import (
	"fmt"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// f32 sums of at most a few hundred terms stay within a few ulps of the float64 twin.
var tight = gputest.Tolerance{RMS: 1e-6, Max: 4e-6}

func TestRMSNorm(t *testing.T) {
	for _, d := range []int{1, 5, 63, 64, 65, 128, 384} {
		for _, rows := range []int{1, 3, 65} {
			for _, add := range []uint32{0, 1} {
				p := shaders.RMSNormParams{D: uint32(d), XStride: uint32(d + 3), YStride: uint32(d + 1), Eps: 1e-6, Add: add, XCol: 2, YCol: 1}
				x := gputest.F32(gputest.Rand(1, rows*(d+3), 2))
				w := gputest.F32(gputest.Rand(2, d, 1))
				y := gputest.Poisoned((rows + 1) * (d + 1))
				if add == 1 {
					copy(y, gputest.F32(gputest.Rand(3, rows*(d+1), 1)))
				}
				if rows == 3 && add == 0 {
					perHead(t, d)
				}
				gputest.Check(t, fmt.Sprintf("D %d rows %d add %d", d, rows, add), tight, shaders.RMSNorm, nil, p,
					shaders.Step{Tokens: uint32(rows)}, []int{2}, x, w, y)
			}
		}
	}
}

// perHead normalises heads of d elements beside one another, each for itself: as many rows of one head.
func perHead(t *testing.T, d int) {
	const rows, heads = 3, 5
	n := heads * d
	p := shaders.RMSNormParams{D: uint32(d), XStride: uint32(n + 3), YStride: uint32(n + 1), Eps: 1e-6, XCol: 2, YCol: 1, Heads: heads, WCol: 3}
	x, w := gputest.Rand(1, rows*(n+3), 2), gputest.F32(gputest.Rand(2, 3+d, 1))
	gputest.Check(t, fmt.Sprintf("%d heads of %d", heads, d), tight, shaders.RMSNorm, nil, p, shaders.Step{Tokens: rows}, []int{2}, gputest.F32(x), w, gputest.Poisoned((rows+1)*(n+1)))
	cpu := webgpu.NewCPU()
	got := gputest.Run(t, cpu, shaders.RMSNorm, nil, p, shaders.Step{Tokens: rows}, gputest.F32(x), w, gputest.Poisoned(rows*(n+1)))[2]
	one := shaders.RMSNormParams{D: uint32(d), XStride: uint32(d), YStride: uint32(d), Eps: 1e-6}
	for r := range rows {
		want := gputest.Run(t, cpu, shaders.RMSNorm, nil, one, shaders.Step{Tokens: heads}, gputest.F32(x[r*(n+3)+2:][:n]), w[3:], gputest.Poisoned(n))[2]
		gputest.Close(t, fmt.Sprintf("row %d beside rows of one head", r), tight, gputest.Floats(got[r*(n+1)+1:][:n]), gputest.Floats(want))
	}
}
