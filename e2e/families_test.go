//go:build !js

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellgame/internal/chrome"
	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/construct"
	"shellgame/model/safetensors"
)

// randomQwen is a checkpoint of Qwen3.5's kind that knows the zoo's words and nothing of them: two value
// heads share each key head, attention has gates, and there is a part for pictures.
const randomQwen = `{"model_type":"qwen3_5","text_config":{"model_type":"qwen3_5_text","vocab_size":288,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,
"layer_types":["linear_attention","linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":16,"linear_value_head_dim":24,"tie_word_embeddings":true,"max_position_embeddings":512}}`

func writeRandomQwen(models string) error {
	if err := writeRandom(models, "qwen", randomQwen, construct.Tokenizer); err != nil {
		return err
	}
	return writeRandom(models, "strange", strings.Replace(randomQwen, `"vocab_size":288`, `"vocab_size":100`, 1), nil)
}

// writeRandom writes a checkpoint with a part that is no text, and a tokenizer if there is one.
func writeRandom(models, name, shape string, tokenizer []byte) error {
	c, err := config.Parse([]byte(shape))
	if err != nil {
		return err
	}
	entries := []safetensors.Entry{{Name: "model.visual.pos_embed.weight", DType: safetensors.BF16, Shape: []int{250, 2}, Data: make([]byte, 1000)}}
	for _, t := range config.Tensors(c) {
		entries = append(entries, model.RandomTensor(t, safetensors.BF16, 3))
	}
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, entries, nil); err != nil {
		return err
	}
	dir := filepath.Join(models, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"config.json": []byte(shape), "model.safetensors": weights.Bytes(), "tokenizer.json": tokenizer} {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// A checkpoint with words of its own, named in the address, is there and says so; there is no program to
// draw.
func TestOwnWordsInLink(t *testing.T) {
	p := open(t, chrome.Options{}, "?model=models/strange&device=cpu")
	p.live("strange")
	p.wait("document.body.textContent.includes('words of its own')")
	p.quiet()
}

// A checkpoint of another family has the same views, with each value head's own numbers.
func TestOtherFamily(t *testing.T) {
	if !whole {
		t.Skip("takes half a minute: E2E=whole")
	}
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=st&model=models/qwen&n=6&seed=2&device=cpu")
	p.live("qwen")
	p.wait("document.body.textContent.includes('Left aside: vision, 1 kB.')")
	p.click("end")
	p.wait("s.answer && !s.busy")
	p.view("anatomy", ".verdict-chip.good")
	pick := func(css string, nth, value int) {
		t.Helper()
		eval[bool](p, fmt.Sprintf("((s) => { s.value = %d; s.dispatchEvent(new Event('change')); return true; })(document.querySelectorAll('%s select')[%d])", value, css, nth))
	}
	for head := range 4 {
		pick(".view-anatomy", 0, 1)
		pick(".view-anatomy", 1, head)
		p.wait(fmt.Sprintf("document.querySelector('.view-anatomy .lead').textContent.includes('layer 1, head %d')", head))
		p.wait("document.querySelector('.view-anatomy .verdict-chip.good')")
		label := eval[string](p, "document.querySelector('.dial svg').getAttribute('aria-label')")
		if !strings.Contains(label, "in 15 other directions") || strings.Contains(label, "\u2212") {
			t.Errorf("head %d: the dial says %q, want keys of 16 and no negative eigenvalue", head, label)
		}
	}
	p.shot("qwen-anatomy")
	p.view("maps", ".map-pane:first-child .verdict-chip.good")
	pick(".map-pane:first-child", 1, 3)
	p.wait("document.querySelector('.map-pane .sheet').getAttribute('aria-label').includes('head 3:')")
	p.wait("document.querySelectorAll('.view-maps .verdict-chip.good').length === 2")
	p.shot("qwen-maps")
	p.quiet()
}
