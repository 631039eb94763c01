package eval_test

// Less than natively: a CPU in WebAssembly is slow.
const samples = 32

var levels = []int{4, 8}
