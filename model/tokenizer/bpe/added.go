package bpe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"shellgame/model/tokenizer/internal/file"
)

// added are tokens that are found in a text before it is cut into words: the leftmost, and of
// those that begin there the longest. They are kept by first byte, the longest first.
type added [256][]file.AddedToken

func (t *Tokenizer) setAdded(tokens []file.AddedToken) error {
	for _, a := range tokens {
		if a.Content == "" {
			return fmt.Errorf("added_tokens: token %d: got no content, want some", a.ID)
		}
		if err := t.set(a.Content, a.ID); err != nil {
			return fmt.Errorf("added_tokens: %w", err)
		}
		t.special[a.ID] = a.Special
		if strings.TrimFunc(a.Content, unicode.IsSpace) == "" && (a.LStrip || a.RStrip) {
			return fmt.Errorf("added_tokens: token %d: got white space with lstrip or rstrip, want neither: not supported", a.ID)
		}
		set := &t.raw
		if a.Normalized {
			set = &t.tidied
			if t.nfc {
				a.Content = norm.NFC.String(a.Content)
			}
		}
		first := &set[a.Content[0]]
		if slices.ContainsFunc(*first, func(b file.AddedToken) bool { return b.Content == a.Content }) {
			return errors.New("added_tokens: got two tokens " + fmt.Sprintf("%.60q", a.Content) + ", want one")
		}
		*first = append(*first, a)
	}
	for _, set := range []*added{&t.raw, &t.tidied} {
		for b := range set {
			slices.SortFunc(set[b], func(x, y file.AddedToken) int { return len(y.Content) - len(x.Content) })
		}
	}
	return nil
}

// find calls token for each added token of a text and plain for what lies between, in order.
func (set *added) find(text string, token func(id int), plain func(string)) {
	done := 0 // text[:done] has been given out
	for at := 0; at < len(text); {
		a := set.at(text[at:])
		if a == nil {
			at++
			continue
		}
		start, stop := at, at+len(a.Content)
		at = stop
		if a.SingleWord && (endsWord(text[:start]) || beginsWord(text[stop:])) {
			continue
		}
		if a.LStrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if a.RStrip {
			stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
			at = stop
		}
		if done < start {
			plain(text[done:start])
		}
		token(a.ID)
		done = stop
	}
	if done < len(text) {
		plain(text[done:])
	}
}

// at returns the longest token that a text begins with.
func (set *added) at(text string) *file.AddedToken {
	tokens := set[text[0]]
	for i := range tokens {
		if strings.HasPrefix(text, tokens[i].Content) {
			return &tokens[i]
		}
	}
	return nil
}

func endsWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && inWord(r)
}

func beginsWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && inWord(r)
}

// inWord is \w of Unicode's regular expressions.
func inWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
