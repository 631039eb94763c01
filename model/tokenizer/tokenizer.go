// Package tokenizer turns text into token numbers and back, as a tokenizer.json says: Words is the
// zoo's table of words, and model/tokenizer/bpe has the byte pairs of published checkpoints, which
// the page loads only with such a checkpoint.
package tokenizer

import "unicode/utf8"

// Tokenizer turns text into tokens and back. It is safe for concurrent use. Errors are one line
// that begins with "tokenizer: ".
type Tokenizer interface {
	// Encode returns the tokens of a text, those that go before every text included.
	Encode(text string) ([]int, error)
	// Decode returns the text of tokens, special ones included. A token outside the vocabulary is
	// an error.
	Decode(ids []int) (string, error)
	// Bytes returns what one token adds to a text, which may be a part of a character. First says
	// that the text is empty so far.
	Bytes(id int, first bool) ([]byte, error)
	// Token returns a token as tokenizer.json writes it, "" outside the vocabulary.
	Token(id int) string
	// ID returns the token of that writing, or false.
	ID(token string) (int, bool)
	// Special reports whether a token is a special one such as <bos>, which is no part of a text.
	Special(id int) bool
	// N is one more than the largest token.
	N() int
}

// Stream turns tokens into text as they come and never gives a part of a character: bytes that
// may still become one are held back.
type Stream struct {
	t    Tokenizer
	held []byte
	any  bool
}

// NewStream begins a text.
func NewStream(t Tokenizer) *Stream { return &Stream{t: t} }

// Next adds a token and returns the characters that are whole now. Bytes that can be no character
// are U+FFFD. After an error the text can go on.
func (s *Stream) Next(id int) (string, error) {
	b, err := s.t.Bytes(id, !s.any)
	if err != nil {
		return "", err
	}
	s.any = true
	text, rest := Text(append(s.held, b...))
	s.held = rest
	return text, nil
}

// End returns what was held back, as U+FFFD.
func (s *Stream) End() string {
	if len(s.held) == 0 {
		return ""
	}
	s.held = nil
	return string(utf8.RuneError)
}

// Text returns the characters of b and the last bytes, at most three, that begin one which is not
// whole. Bytes that can be no character are U+FFFD, one for each longest beginning of a character,
// as the Unicode standard advises and transformers does.
func Text(b []byte) (text string, rest []byte) {
	var out []byte
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		if !utf8.FullRune(b) {
			break
		}
		n := 1
		for n < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		b = b[n:]
	}
	return string(out), append([]byte(nil), b...)
}
