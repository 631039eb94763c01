package model

import "shellgame/webgpu"

// Buffers is how many buffers hold the weights.
func (m *Model) Buffers() int {
	n := 0
	for _, w := range m.w {
		n += len(w.parts)
	}
	return n
}

// On is the model on what its own device wraps.
func (m *Model) On(dev webgpu.Device) *Model {
	c := *m
	c.dev = dev
	return &c
}
