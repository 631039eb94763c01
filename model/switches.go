package model

import (
	"fmt"
	"slices"

	"shellgame/model/config"
	"shellgame/shaders"
)

// Switches change a model's forward pass for a runner. The zero value is the model as trained.
type Switches struct {
	// Beta removes negative eigenvalues: "sigmoid" leaves out the factor 2, "clamp" limits beta to 1.
	// A model that was trained without them has no beta above 1, so that neither changes it.
	Beta   string   `json:"beta,omitempty"`
	Decay  *bool    `json:"decay,omitempty"`  // false: alpha is 1
	Conv   *bool    `json:"conv,omitempty"`   // false: only the newest tap of the convolution, weight 1
	Gate   *bool    `json:"gate,omitempty"`   // false: no output gate of GDN layers
	Layers []int    `json:"layers,omitempty"` // layers whose mixer adds nothing; its state and cache go on
	Heads  [][2]int `json:"heads,omitempty"`  // layer, head: zero before o_proj; a GDN layer's are its HV
	Store  string   `json:"store,omitempty"`  // "bf16" or "f16": S is rounded so after each token
}

// maxMasked is how many heads a mask of [shaders.HeadMask] has room for.
const maxMasked = 128

// stores maps what Switches.Store may be to the kernels' STORE.
var stores = map[string]uint32{"": shaders.F32, "f16": shaders.F16, "bf16": shaders.BF16}

// Zero reports whether nothing is switched.
func (s Switches) Zero() bool {
	return s.Beta == "" && !off(s.Decay) && !off(s.Conv) && !off(s.Gate) && len(s.Layers) == 0 && len(s.Heads) == 0 && s.Store == ""
}

// Check returns an error that names the first switch that a model of shape c does not have.
func (s Switches) Check(c *config.Config) error {
	if s.Beta != "" && s.Beta != "sigmoid" && s.Beta != "clamp" {
		return fmt.Errorf("model: switches: beta: got %q, want sigmoid or clamp", s.Beta)
	}
	if _, ok := stores[s.Store]; !ok {
		return fmt.Errorf("model: switches: store: got %q, want bf16 or f16", s.Store)
	}
	layer := func(what string, i int) error {
		if i < 0 || i >= len(c.Layers) {
			return fmt.Errorf("model: switches: %s: got layer %d, want 0 to %d", what, i, len(c.Layers)-1)
		}
		return nil
	}
	for _, i := range s.Layers {
		if err := layer("layers", i); err != nil {
			return err
		}
	}
	for _, h := range s.Heads {
		if err := layer("heads", h[0]); err != nil {
			return err
		}
		if n := min(mixed(c, h[0]), maxMasked); h[1] < 0 || h[1] >= n {
			return fmt.Errorf("model: switches: heads: got head %d of layer %d, want 0 to %d", h[1], h[0], n-1)
		}
	}
	return nil
}

func off(b *bool) bool { return b != nil && !*b }

// layerOff reports whether layer i's mixer adds nothing.
func (s *Switches) layerOff(i int) bool { return slices.Contains(s.Layers, i) }

// mask holds a bit for each head of layer i that is off.
func (s *Switches) mask(i int) (m [4]uint32) {
	for _, h := range s.Heads {
		if h[0] == i {
			m[h[1]/32] |= 1 << (h[1] % 32)
		}
	}
	return m
}

// mixed is how many heads layer i's mixer hands to its output projection.
func mixed(c *config.Config, i int) int {
	if c.Layers[i].Kind == config.GDN {
		return c.HV
	}
	return c.Heads
}
