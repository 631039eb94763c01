// Package chat writes a conversation as the prompt that a checkpoint was trained on, by the
// template that it carries. It is no part of the page.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Message is what one of the two said, or what the system is told: role system, user or assistant.
type Message struct{ Role, Content string }

// Template is a checkpoint's chat template.
type Template struct {
	t        *exec.Template
	bos, eos string
}

// EOS is the token that the checkpoint's tokenizer_config.json ends a text with, "" is none.
func (t *Template) EOS() string { return t.eos }

// Load reads the template of a tokenizer_config.json, or of a chat_template.jinja beside it, which
// comes first; either may be nil. A checkpoint without a template has a nil one. What cannot be
// read is an error of one line that begins with "chat template: "; what asks for more than there
// is, an ErrNotSupported.
func Load(tokenizerConfig, jinja []byte) (*Template, error) {
	var c struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      token           `json:"bos_token"`
		EOS      token           `json:"eos_token"`
	}
	if tokenizerConfig != nil {
		if err := json.Unmarshal(tokenizerConfig, &c); err != nil {
			return nil, fmt.Errorf("chat template: tokenizer_config.json: %w", err)
		}
	}
	source := string(jinja)
	if jinja == nil {
		var err error
		if source, err = pick(c.Template); err != nil {
			return nil, fmt.Errorf("chat template: %w", err)
		}
	}
	if source == "" {
		return nil, nil
	}
	t := &Template{bos: string(c.BOS), eos: string(c.EOS)}
	err := guard(func() (err error) {
		// As transformers sets Jinja; no file can be included.
		cfg := config.New()
		cfg.TrimBlocks, cfg.LeftStripBlocks = true, true
		loader, err := loaders.NewMemoryLoader(map[string]string{"/template": source})
		if err == nil {
			t.t, err = exec.NewTemplate("/template", cfg, loader, gonja.DefaultEnvironment)
		}
		return err
	})
	if err != nil {
		return nil, notSupported(err)
	}
	// Unknown filters and methods show when they are called.
	if _, err := t.Render([]Message{{"user", "?"}}); errors.Is(err, ErrNotSupported) {
		return nil, err
	}
	return t, nil
}

// ErrNotSupported says that a template asks for something that is not here.
var ErrNotSupported = errors.New("not supported")

// notSupported is one line that says what the template asks for: the engine's innermost error.
func notSupported(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	text := err.Error()
	text = text[strings.LastIndex(text, "}: ")+1:] // before it, the engine's own structures
	return fmt.Errorf("chat template: %w: %.300s", ErrNotSupported, strings.Join(strings.Fields(strings.TrimPrefix(text, ": ")), " "))
}

// token is a token written as a string or as an object.
type token string

func (t *token) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil {
		if s != nil {
			*t = token(*s)
		}
		return nil
	}
	var o struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return fmt.Errorf("got %.40q, want a token", b)
	}
	*t = token(o.Content)
	return nil
}

// pick returns the template, of several the one called default.
func pick(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one, nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &several); err != nil {
		return "", fmt.Errorf("got %.40q, want a text, or a list of names and templates", raw)
	}
	var names []string
	for _, t := range several {
		if t.Name == "default" {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("got the templates %q, want one called default: not supported", names)
}

// Render writes a conversation and the beginning of the assistant's answer. A template that refuses
// it is an error.
func (t *Template) Render(messages []Message) (string, error) {
	if len(messages) == 0 {
		return "", errors.New("chat template: got no messages, want one at least")
	}
	var list []any
	for _, m := range messages {
		list = append(list, map[string]any{"role": m.Role, "content": m.Content})
	}
	var raised string
	var out string
	err := guard(func() (err error) {
		out, err = t.t.ExecuteToString(exec.NewContext(map[string]any{
			"messages": list, "add_generation_prompt": true, "bos_token": t.bos, "eos_token": t.eos,
			"raise_exception": func(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
				raised = "it refuses the conversation"
				if len(args.Args) > 0 {
					raised = args.Args[0].String()
				}
				return exec.AsValue(errors.New(raised))
			},
		}))
		return err
	})
	if raised != "" {
		return "", fmt.Errorf("chat template: %.300s", strings.Join(strings.Fields(raised), " "))
	}
	if err != nil {
		return "", notSupported(err)
	}
	return out, nil
}

// patience is how long a template may take, far beyond what any conversation needs.
var patience = 10 * time.Second

// guard turns a panic of the template engine into an error, and gives up on a template that does
// not come to an end; what it does goes on until the process ends.
func guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("%v", p)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("it took more than %v", patience)
	}
}
