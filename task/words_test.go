package task

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table is derived from the grammar; the tokenizer's file must agree.
func TestWordsAreTheTokenizers(t *testing.T) {
	raw, err := os.ReadFile("../web/zoo/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Model struct {
			Vocab map[string]int32 `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file.Model.Vocab, ids); diff != "" {
		t.Errorf("vocabulary (-tokenizer.json +table):\n%s", diff)
	}
	if len(words) != NumWords {
		t.Errorf("got %d words, want %d", len(words), NumWords)
	}
}

func TestEncodeDecode(t *testing.T) {
	in := []string{"bits=[", "0,", "1,", "]", "e=", "1", "assert", "bits[e]==", "1"}
	got, err := Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int32{1, 3, 32, 33, 4, 11, 161, 2, 21, 161}, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	back, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, back); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	if _, err := Encode([]string{"a=", "128"}); err == nil || err.Error() != `task: word 1: got "128", want one of the vocabulary's 288 words` {
		t.Errorf("Encode of an unknown word: %v", err)
	}
	for _, id := range []int32{-1, 288} {
		if _, err := Decode([]int32{1, id}); err == nil {
			t.Errorf("Decode of %d: no error", id)
		}
		if Word(id) != "" {
			t.Errorf("Word(%d) = %q, want none", id, Word(id))
		}
	}
}

func TestWordFamilies(t *testing.T) {
	for v, letter := range []string{"a", "b", "c", "d", "e"} {
		if got := Var(v).String(); got != letter {
			t.Errorf("variable %d is %q, want %q", v, got, letter)
		}
		got, _ := Decode(append(AskVar(Var(v)), AskBit(Var(v))...))
		if diff := cmp.Diff([]string{"assert", letter + "==", "assert", "bits[" + letter + "]=="}, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, x := range []int{0, 36, 127} {
		if got, ok := Number(NumberID(x)); !ok || got != x {
			t.Errorf("Number(NumberID(%d)) = %d, %t", x, got, ok)
		}
	}
	if _, ok := Number(idItem); ok {
		t.Error("`0,` counts as a number that stands alone")
	}
	for i, p := range swapPairs {
		if swapIndex[p[0]][p[1]] != int32(i) || swapIndex[p[1]][p[0]] != int32(i) {
			t.Errorf("pair %v is not number %d", p, i)
		}
	}
}

func TestTasks(t *testing.T) {
	for _, want := range Tasks() {
		got, err := ParseTask(string(want))
		if err != nil || got != want {
			t.Errorf("ParseTask(%q) = %q, %v", want, got, err)
		}
		for _, n := range append(want.Levels(), want.TrainedLevels()...) {
			if err := want.CheckLevel(n); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := ParseTask("swap"); err == nil {
		t.Error("ParseTask(swap): no error")
	}
	for _, c := range []struct {
		task Task
		n    int
		ok   bool
	}{{StateTracking, 512, true}, {StateTracking, 513, false}, {Recall, 129, false}, {StateBasedRecall, 129, false}, {Recall, 0, false}, {"x", 4, false}} {
		if err := c.task.CheckLevel(c.n); (err == nil) != c.ok {
			t.Errorf("CheckLevel(%s, %d) = %v, want ok = %t", c.task, c.n, err, c.ok)
		}
	}
}
