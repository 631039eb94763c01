package bpe

import "strings"

// letters are how a tokenizer.json writes bytes: those that are visible in Latin-1 as themselves,
// the others as the letters from U+0100 on, in order.
var letters, values = func() (letters [256]rune, values map[rune]byte) {
	values = map[rune]byte{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if visible := r > ' ' && r < 0x7f || r > 0xa0 && r != 0xad; !visible {
			r = next
			next++
		}
		letters[b], values[r] = r, byte(b)
	}
	return letters, values
}()

// spell writes bytes as letters.
func spell(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(letters[s[i]])
	}
	return b.String()
}

// unspell returns the bytes of a token. One with other letters stands for itself.
func unspell(token string) []byte {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		v, ok := values[r]
		if !ok {
			return []byte(token)
		}
		out = append(out, v)
	}
	return out
}
