//go:build !js

package eval_test

const samples = 64

var levels = []int{4, 8, 16}
