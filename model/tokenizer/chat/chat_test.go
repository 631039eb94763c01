package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// cases are templates in the forms that published checkpoints use, and what Python's Jinja makes of
// them.
func cases(t testing.TB) (out struct {
	Conversations [][]Message
	Templates     []struct {
		Name     string
		Template []string // lines
		Prompts  []string // one a conversation
	}
},
) {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/chat.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Templates) < 4 || len(out.Conversations) < 2 {
		t.Fatalf("got %d templates, %d conversations", len(out.Templates), len(out.Conversations))
	}
	return out
}

func configOf(t testing.TB, template any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"chat_template": template, "bos_token": "<bos>", "eos_token": map[string]any{"content": "<eos>"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRender(t *testing.T) {
	all := cases(t)
	for _, c := range all.Templates {
		source := strings.Join(c.Template, "\n")
		for form, template := range map[string]any{
			"a text": source,
			"a list": []map[string]string{{"name": "tool_use", "template": "{% x"}, {"name": "default", "template": source}},
		} {
			tmpl, err := Load(configOf(t, template), nil)
			if err != nil {
				t.Fatalf("%s as %s: %v", c.Name, form, err)
			}
			if tmpl.EOS() != "<eos>" {
				t.Errorf("%s: got the last token %q", c.Name, tmpl.EOS())
			}
			for i, m := range all.Conversations {
				if got, err := tmpl.Render(m); err != nil || got != c.Prompts[i] {
					t.Errorf("%s as %s:\ngot  %q, %v\nwant %q", c.Name, form, got, err, c.Prompts[i])
				}
			}
		}
		tmpl, err := Load(configOf(t, "another"), []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(all.Conversations[0]); err != nil || got != c.Prompts[0] {
			t.Errorf("%s in a file of its own: got %q, %v", c.Name, got, err)
		}
	}
}

func TestNone(t *testing.T) {
	for _, c := range []string{"", "{}", `{"chat_template": null, "bos_token": null}`} {
		data := []byte(c)
		if c == "" {
			data = nil
		}
		if tmpl, err := Load(data, nil); tmpl != nil || err != nil {
			t.Errorf("%q: got %v, %v, want no template", c, tmpl, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		template any
		want     string
	}{
		{map[string]string{"a": "b"}, `chat template: got "{\"a\":\"b\"}", want a text, or a list of names and templates`},
		{[]map[string]string{{"name": "rag", "template": "x"}}, `chat template: got the templates ["rag"], want one called default: not supported`},
		{"{% generation %}x{% endgeneration %}", "generation"},
		{"{{ messages | nonsense }}", "nonsense"},
		{"{{ messages[0].content.nonsense() }}", "nonsense"},
		{"{{ nonsense(1) }}", "nonsense"},
		{"{% include '/etc/passwd' %}", "/etc/passwd"},
		{"{% for m in messages %}", "not supported"},
		{"{{ raise_exception('only\nof tools') }}", "chat template: only of tools"},
		{strings.Join(cases(t).Templates[2].Template, "\n"), "chat template: roles must take turns"},
	} {
		tmpl, err := Load(configOf(t, c.template), nil)
		if err == nil {
			_, err = tmpl.Render([]Message{{"assistant", "x"}})
		}
		if err == nil || !strings.HasPrefix(err.Error(), "chat template: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v:\ngot  %v\nwant %s", c.template, err, c.want)
		}
	}
	if _, err := Load([]byte("<html>"), nil); err == nil || !strings.HasPrefix(err.Error(), "chat template: tokenizer_config.json: ") {
		t.Errorf("got %v", err)
	}
	tmpl, err := Load(configOf(t, "x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(nil); err == nil {
		t.Error("no messages: no error")
	}
}

// TestPatience: a template that does not end and one that panics are errors.
func TestPatience(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 20 * time.Millisecond
	if err := guard(func() error { select {} }); err == nil || err.Error() != "it took more than 20ms" {
		t.Errorf("got %v", err)
	}
	if err := guard(func() error { panic("no") }); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
}

// FuzzLoad: no template panics.
func FuzzLoad(f *testing.F) {
	all := cases(f)
	for _, c := range all.Templates {
		f.Add(strings.Join(c.Template, "\n"))
	}
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, "range") || strings.Contains(source, "for") || strings.Contains(source, "*") {
			return // what takes forever is the user's to interrupt
		}
		tmpl, err := Load(nil, []byte(source))
		if err == nil && tmpl != nil {
			tmpl.Render(all.Conversations[1])
		}
	})
}
