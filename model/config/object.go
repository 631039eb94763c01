package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// object is a JSON object read by key; the first failure stays in err, so that
// a run of reads is checked once.
type object struct {
	name   string // prefix of its keys in errors
	fields map[string]json.RawMessage
	err    error
}

func parseObject(name string, data []byte) (*object, error) {
	data = bytes.TrimSpace(data)
	what := "config.json"
	if name != "" {
		what = name
	}
	if len(data) == 0 || data[0] != '{' || !json.Valid(data) {
		return nil, fmt.Errorf("%s: got %s, want a JSON object", what, brief(string(data)))
	}
	o := &object{name: name}
	if err := json.Unmarshal(data, &o.fields); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return o, nil
}

// brief shortens a value for an error line.
func brief(raw string) string {
	if raw == "" {
		return "nothing"
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return fmt.Sprintf("%.40q", raw)
	}
	if b.Len() > 60 {
		return fmt.Sprintf("%.57s...", b.String())
	}
	return b.String()
}

func (o *object) raw(key string) string { return string(bytes.TrimSpace(o.fields[key])) }

// path is the key as errors name it.
func (o *object) path(key string) string {
	if o.name == "" {
		return key
	}
	return o.name + "." + key
}

// given tells whether a key is there and not null.
func (o *object) given(key string) bool { raw := o.raw(key); return raw != "" && raw != "null" }

func (o *object) fail(key, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: got %s, %s", o.path(key), brief(o.raw(key)), fmt.Sprintf(format, args...))
	}
}

// integer reads an integer in [least, most]; absent and null give def.
func (o *object) integer(key string, def, least, most int) int {
	if !o.given(key) {
		return def
	}
	v, err := strconv.Atoi(o.raw(key))
	if err != nil || v < least || v > most {
		o.fail(key, "want an integer from %d to %d", least, most)
		return def
	}
	return v
}

// number reads a finite number above least and at most most.
func (o *object) number(key string, def, least, most float64) float64 {
	if !o.given(key) {
		return def
	}
	v, err := strconv.ParseFloat(o.raw(key), 64)
	if err != nil || math.IsNaN(v) || v <= least || v > most {
		o.fail(key, "want a number above %v and at most %v", least, most)
		return def
	}
	return v
}

func (o *object) boolean(key string, def bool) bool {
	switch o.raw(key) {
	case "", "null":
		return def
	case "true":
		return true
	case "false":
		return false
	}
	o.fail(key, "want true or false")
	return def
}

func (o *object) text(key, def string) string {
	if !o.given(key) {
		return def
	}
	var s string
	if json.Unmarshal(o.fields[key], &s) != nil {
		o.fail(key, "want a string")
	}
	return s
}

// texts reads an array of strings; absent and null give nil.
func (o *object) texts(key string) []string {
	if !o.given(key) {
		return nil
	}
	list := []string{}
	if json.Unmarshal(o.fields[key], &list) != nil {
		o.fail(key, "want an array of strings")
	}
	return list
}

func (o *object) integers(key string, least, most int) []int {
	var list []int
	if json.Unmarshal(o.fields[key], &list) != nil {
		o.fail(key, "want an array of integers")
	}
	for _, v := range list {
		if v < least || v > most {
			o.fail(key, "want integers from %d to %d", least, most)
		}
	}
	return list
}
