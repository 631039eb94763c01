package shaders_test

import (
	"fmt"
	"testing"

	"shellgame/shaders"
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
				gputest.Check(t, fmt.Sprintf("D %d rows %d add %d", d, rows, add), tight, shaders.RMSNorm, nil, p,
					shaders.Step{Tokens: uint32(rows)}, []int{2}, x, w, y)
			}
		}
	}
}
