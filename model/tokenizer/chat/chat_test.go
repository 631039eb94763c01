package chat

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Templates in the forms that published checkpoints use. What each gives was computed with Jinja
// 3.1.6 in Python, set as transformers sets it.
const (
	chatML = `{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

	headers = `{% set list = messages %}
{% for m in list %}
    {% set text = '<|start|>' + m.role + '<|end|>\n\n' + m.content | trim + '<|eot|>' %}
    {% if loop.index0 == 0 %}{% set text = bos_token + text %}{% endif %}
    {{- text }}
{% endfor %}
{% if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\n\n' }}
{% endif %}`

	turns = `{%- if messages[0]["role"] == "system" %}
    {%- set told = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{{- bos_token }}
{%- for m in rest %}
    {%- if (m["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must take turns") }}
    {%- endif %}
    {%- if m["role"] == "user" %}
        {%- if loop.last and told is defined %}{{- "[INST] " + told + "\n\n" + m["content"] + "[/INST]" }}
        {%- else %}{{- "[INST] " + m["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}{{- " " + m["content"]|trim + eos_token }}
    {%- endif %}
{%- endfor %}`

	thinking = `{%- macro show(content) %}
    {%- if content is string %}{{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}{{- item.text }}{%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set i = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and m.role == "user" and not (m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}
        {%- set ns.open = false %}
        {%- set ns.last = i %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = show(m.content)|trim %}
    {%- if m.role == "assistant" and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- if loop.index0 > ns.last %}{%- set content = '<think>' + thought + '</think>' + content %}{%- endif %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is true %}{{- '<think>\n' }}
    {%- else %}{{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}`
)

var (
	short = []Message{{"user", "Hi <b>\n"}}
	long  = []Message{{"system", "Be good. "}, {"user", "Hi"}, {"assistant", "<think>\nhm\n</think>\n\nHello"}, {"user", `again & "q"`}}
)

func configOf(t testing.TB, template any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"chat_template": template, "bos_token": "<bos>", "eos_token": map[string]any{"content": "<eos>"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRender(t *testing.T) {
	for _, c := range []struct {
		name, template, short, long string
	}{
		{"chatML", chatML, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b>\n<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>system\nBe good. <|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nHello<|im_end|>\n<|im_start|>user\nagain & \"q\"<|im_end|>\n<|im_start|>assistant\n"},
		{"headers", headers, "<bos><|start|>user<|end|>\n\nHi <b><|eot|>\n<|start|>assistant<|end|>\n\n\n", "<bos><|start|>system<|end|>\n\nBe good.<|eot|>\n<|start|>user<|end|>\n\nHi<|eot|>\n<|start|>assistant<|end|>\n\n<think>\nhm\n</think>\n\nHello<|eot|>\n<|start|>user<|end|>\n\nagain & \"q\"<|eot|>\n<|start|>assistant<|end|>\n\n\n"},
		{"turns", turns, "<bos>[INST] Hi <b>\n[/INST]", "<bos>[INST] Hi[/INST] <think>\nhm\n</think>\n\nHello<eos>[INST] Be good. \n\nagain & \"q\"[/INST]"},
		{"thinking", thinking, "<|im_start|>user\nHi <b><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_start|>system\nBe good.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nagain & \"q\"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
	} {
		for form, template := range map[string]any{
			"a text": c.template,
			"a list": []map[string]string{{"name": "tool_use", "template": "{% x"}, {"name": "default", "template": c.template}},
		} {
			tmpl, err := Load(configOf(t, template), nil)
			if err != nil {
				t.Fatalf("%s as %s: %v", c.name, form, err)
			}
			if tmpl.EOS() != "<eos>" {
				t.Errorf("%s: got the last token %q", c.name, tmpl.EOS())
			}
			for i, m := range [][]Message{short, long} {
				if got, err := tmpl.Render(m); err != nil || got != []string{c.short, c.long}[i] {
					t.Errorf("%s as %s:\ngot  %q, %v\nwant %q", c.name, form, got, err, []string{c.short, c.long}[i])
				}
			}
		}
		tmpl, err := Load(configOf(t, "another"), []byte(c.template))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(short); err != nil || got != c.short {
			t.Errorf("%s in a file of its own: got %q, %v", c.name, got, err)
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
		{turns, "chat template: roles must take turns"},
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
	tmpl, err := Load(configOf(t, chatML), nil)
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
	for _, s := range []string{chatML, headers, turns, thinking} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, "range") || strings.Contains(source, "for") || strings.Contains(source, "*") {
			return // what takes forever is the user's to interrupt
		}
		tmpl, err := Load(nil, []byte(source))
		if err == nil && tmpl != nil {
			tmpl.Render(long)
		}
	})
}
