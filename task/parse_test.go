package task

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, src string) *Program {
	t.Helper()
	p, err := Parse(src)
	if err != nil {
		t.Fatalf("Parse(%q): %v", src, err)
	}
	return p
}

func TestParse(t *testing.T) {
	const r = "a,b,c,d,e=range(5)"
	for _, c := range []struct{ name, src, want string }{
		{"empty", "", ""},
		{"only a comment", "# nothing", ""},
		{"canonical on one line", r + " a,c=c,a b,d=d,b assert a== 2", r + " a,c=c,a b,d=d,b assert a== 2"},
		{"lines", r + "\na,c=c,a\nassert a==2\n", r + " a,c=c,a assert a== 2"},
		{"Windows lines, tabs, comments", r + " # start\r\n\ta , c = c , a\r\n# the end\r\nassert a == 2 # yes", r + " a,c=c,a assert a== 2"},
		{"semicolons", r + "; a,c=c,a;b,d=d,b;", r + " a,c=c,a b,d=d,b"},
		{"swap the other way round", r + "\nc,a=a,c", r + " a,c=c,a"},
		{"swap in brackets", r + "\n(a,c)=(c,a,)\n[b,d]=[d,b]\nd,e=e,d,", r + " a,c=c,a b,d=d,b d,e=e,d"},
		{"bits", "bits = [0,1,1,0]", "bits=[ 0, 1, 1, 0, ]"},
		{"bits, canonical", "bits=[ 0, 1, ]", "bits=[ 0, 1, ]"},
		{"no bits", "bits=[]", "bits=[ ]"},
		{"five numbers", "a,b,c,d,e = 3, 0, 2, 1, 3", "a,b,c,d,e= 3, 0, 2, 1, 3,"},
		{"five numbers, trailing comma, then a swap", "a,b,c,d,e= 3, 0, 2, 1, 3, a,c=c,a", "a,b,c,d,e= 3, 0, 2, 1, 3, a,c=c,a"},
		{"five numbers, then a swap", "a,b,c,d,e=3,0,2,1,3 a,c=c,a", "a,b,c,d,e= 3, 0, 2, 1, 3, a,c=c,a"},
		{"five numbers in brackets over lines", "(a, b, c, d, e) = [\n 3, 0,\n 2, 1, 3,\n]", "a,b,c,d,e= 3, 0, 2, 1, 3,"},
		{"five numbers, other order", "b,a,c,e,d = 10,11,12,13,14", "a,b,c,d,e= 11, 10, 12, 14, 13,"},
		{"range with a start", "a,b,c,d,e=range(0, 5)", r},
		{"range with a step", "a,b,c,d,e=(range(0,5,1,))", r},
		{"range, other order", "e,d,c,b,a=range(5)", "a,b,c,d,e= 4, 3, 2, 1, 0,"},
		{"range of two", "b,a=range(2)", "b= 0 a= 1"},
		{"one value", "a = 36", "a= 36"},
		{"one value in parentheses", "(a)=(36)", "a= 36"},
		{"two values", "c, a = 7, 127", "c= 7 a= 127"},
		{"zero and zeros", "a=0 b=000", "a= 0 b= 0"},
		{"asserts", "bits=[0,1]\na=1\nassert bits [ a ] == 1\nassert (a==1)\nassert(bits[a]==1)", "bits=[ 0, 1, ] a= 1 assert bits[a]== 1 assert a== 1 assert bits[a]== 1"},
		{"continued line", "a, \\\n b = 1, \\\r\n 2", "a= 1 b= 2"},
		{"byte-order mark", "\ufeffa=1", "a= 1"},
		{"full-width space", "a\u3000=\u30001", "a= 1"},
		{"open: assert a==", r + " assert a==", r + " assert a=="},
		{"open: assert (a==", r + " assert (a == ", r + " assert a=="},
		{"open: assert bits[a]==", "bits=[1] a=0 assert bits[a] == # ?", "bits=[ 1, ] a= 0 assert bits[a]=="},
		{"open: assert", r + " assert", r + " assert"},
		{"open: a=", "a=", "a="},
		{"open: bits=[", "bits=[", "bits=["},
		{"open: bits=[ 0, 1", "bits=[ 0, 1", "bits=[ 0, 1,"},
		{"open: five numbers", "a,b,c,d,e=", "a,b,c,d,e="},
		{"open: five numbers, two there", "a,b,c,d,e= 3, 4,", "a,b,c,d,e= 3, 4,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(c.src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.Canonical()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got, want := p.Open(), strings.HasPrefix(c.name, "open: "); got != want {
				t.Errorf("Open() = %t, want %t", got, want)
			}
			checkSpans(t, p)
			again := mustParse(t, c.want)
			if diff := cmp.Diff(p.IDs(), again.IDs()); diff != "" {
				t.Errorf("canonical words parse differently:\n%s", diff)
			}
		})
	}
}

// checkSpans checks what every program keeps: ids in range, statements that
// tile the tokens, spans inside the source.
func checkSpans(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *Program,
) {
	t.Helper()
	toks, n := p.Tokens(), len(p.Source())
	if toks[0] != (Token{ID: BOS, Stmt: -1}) {
		t.Fatalf("token 0 is %+v, want <bos>", toks[0])
	}
	next := 1
	for i, s := range p.Stmts() {
		if s.First != next || s.Last < s.First || s.Start < 0 || s.End <= s.Start || s.End > n {
			t.Fatalf("statement %d is %+v: want First %d and a span in [0,%d]", i, s, next, n)
		}
		if s.Open && i != len(p.Stmts())-1 {
			t.Fatalf("statement %d is open but not last", i)
		}
		for j := s.First; j <= s.Last; j++ {
			tok := toks[j]
			if tok.Stmt != i || tok.ID <= BOS || tok.ID >= NumWords || tok.Start < s.Start || tok.End <= tok.Start || tok.End > s.End {
				t.Fatalf("token %d is %+v, not a word inside statement %d %+v", j, tok, i, s)
			}
		}
		next = s.Last + 1
	}
	if next != len(toks) {
		t.Fatalf("statements cover %d tokens of %d", next, len(toks))
	}
}

func TestSpans(t *testing.T) {
	src := "# é\nbits = [0 , 1]\n(c, a) = 1, 0 ; a , c = c,a\nassert bits[ a ] == 1"
	p := mustParse(t, src)
	var got []string
	for _, tok := range p.Tokens()[1:] {
		got = append(got, tok.Word()+"|"+src[tok.Start:tok.End])
	}
	want := []string{
		"bits=[|bits = [", "0,|0 ,", "1,|1", "]|]",
		"c=|c", "1|1,", "a=|a", "0|0",
		"a,c=c,a|a , c = c,a",
		"assert|assert", "bits[a]==|bits[ a ] ==", "1|1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = nil
	for _, s := range p.Stmts() {
		got = append(got, src[s.Start:s.End])
	}
	want = []string{"bits = [0 , 1]", "(c, a) = 1, 0", "(c, a) = 1, 0", "a , c = c,a", "assert bits[ a ] == 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	const r = "a,b,c,d,e=range(5)\n"
	var many strings.Builder
	for range 129 {
		many.WriteString("1,")
	}
	for _, c := range []struct{ src, want string }{
		{r + "    foo", "line 2, column 5: unknown word `foo`: expected a swap like `a,c=c,a`, values like `a,b,c,d,e=range(5)` or `a=3`, a list like `bits=[0,1,1]`, or a question like `assert a==2`"},
		{"é=1", "line 1, column 1: unknown variable `é`"},
		{"é1=1", "line 1, column 1: unknown word `é1`"},
		{"# é\nx=1", "line 2, column 1: unknown variable `x`: expected one of a, b, c, d, e"},
		{"a=1 # é\n  § b=1", "line 2, column 3: found `§`: expected a swap"},
		{"a=\xff", "line 1, column 3: found `\ufffd`: expected a number from 0 to 127"},
		{r + "a,c=c,e", "line 2, column 7: found `e`: expected `a`, a swap exchanges two variables, like `a,c=c,a`"},
		{r + "a,c=a,c", "line 2, column 5: found `a`: expected `c`"},
		{r + "a,a=a,a", "line 2, column 3: found `a` twice: expected different variables"},
		{r + "a,b,c=c,a,b", "line 2, column 5: found a third variable: expected a swap of two"},
		{r + "a=b", "line 2, column 3: found `b`: expected a number: a variable cannot be copied"},
		{r + "a,c=c", "line 2, column 6: the program ends here: expected `,` after `c`"},
		{r + "a,c", "line 2, column 4: the program ends here: expected `=` after `a,c`"},
		{r + "a,c=", "line 2, column 5: the program ends here: expected 2 numbers"},
		{r + "a,f=f,a", "line 2, column 3: unknown variable `f`"},
		{"a,b=b,a", "line 1, column 5: `b` has no value yet"},
		{"a=1 a,b=b,a", "line 1, column 9: `b` has no value yet"},
		{"assert a==1", "line 1, column 8: `a` has no value yet: expected something like `a=3`"},
		{"a=1 assert bits[a]==1", "line 1, column 12: `bits` has no value yet"},
		{"bits=[1] assert bits[a]==1", "line 1, column 22: `a` has no value yet"},
		{"bits=[1,0] a=2 assert bits[a]==1", "line 1, column 28: `a` is 2, outside the list: expected an index below 2"},
		{"bits=[1,0] assert bits[1]==0", "line 1, column 24: found `1`: expected a variable that holds the index, like `a=1`"},
		{"bits=[1,2]", "line 1, column 9: found `2`: expected a bit from 0 to 1"},
		{"bits=[1 0]", "line 1, column 9: found `0`: expected `,` or `]`"},
		{"bits=[1,,0]", "line 1, column 9: found `,`: expected a bit"},
		{"bits=1", "line 1, column 6: found `1`: expected `[` after `bits=`"},
		{"bits=", "line 1, column 6: the program ends here: expected `[`"},
		{"bits=[" + many.String() + "]", "line 1, column 263: found bit number 129: expected `]`, the list holds at most 128 bits"},
		{"bits[a]==1", "line 1, column 5: found `bits[` without `assert`"},
		{"a=128", "line 1, column 3: found `128`: expected a number from 0 to 127"},
		{"a=99999999999999999999999", "line 1, column 3: found `99999999999999999999999`: expected a number from 0 to 127"},
		{"a=07", "line 1, column 3: found `07`: expected a number without leading zeros, like `7`"},
		{"a=-1", "line 1, column 3: found `-`: expected a number from 0 to 127"},
		{"a=3x", "line 1, column 3: found `3x`: expected a number"},
		{"a=1.5", "line 1, column 4: found `.`: expected a swap"},
		{"a=[3]", "line 1, column 3: found `[`: expected a number after `a=`, only `bits` holds a list"},
		{"[a]=[3]", "line 1, column 1: found a list of one variable"},
		{"a=(3,)", "line 1, column 5: found `,`: expected `)` after `3`"},
		{"a=3,", "line 1, column 4: found `,`: expected a swap"},
		{"a=3 4", "line 1, column 5: found `4`: expected no more numbers"},
		{"a==3", "line 1, column 2: found `==`, which compares: expected `=`"},
		{"a+=3", "line 1, column 2: found `+`: expected `=` after `a`"},
		{"b,a,c,d,e=1,2,3,4", "line 1, column 18: the program ends here: expected 5 numbers"},
		{"a,b,c,d,e=1,2,3,4,5,6", "line 1, column 21: found `6`: expected no more numbers"},
		{"a,b,c,d,e=1 2", "line 1, column 13: found `2`: expected `,` and 5 numbers"},
		{"a,b,c,d,e=range(6)", "line 1, column 11: found `range(6)`: expected `range(5)`"},
		{"a,b,c,d,e=range(1,6)", "line 1, column 11: found `range(1,6)`: expected `range(5)`"},
		{"a=range(1)", "line 1, column 3: found `range`: expected a number after `a=`"},
		{"a,b=range(", "line 1, column 11: the program ends here: expected a number"},
		{"bits=[1]\na=bits[0]", "line 2, column 3: found `bits`: expected a number: a bit cannot be copied"},
		{r + "assert a=2", "line 2, column 9: found `=`, which sets a value: expected `==`, which compares, after `assert a`"},
		{r + "assert 2==a", "line 2, column 8: found `2`: expected a variable or `bits[...]` after `assert`"},
		{r + "assert a==x", "line 2, column 11: found `x`: expected a number from 0 to 127"},
		{r + "assert a==\na,c=c,a", "line 3, column 1: found `a`: expected a number from 0 to 127"},
		{r + "assert (a==2", "line 2, column 13: the program ends here: expected `)` after `assert a==2`"},
		{r + "assert a", "line 2, column 9: the program ends here: expected `==` after `assert a`"},
		{r + "a,c=c,a, b,d=d,b", "line 2, column 8: found `,` after a swap"},
		{"a=1;;", "line 1, column 5: found `;`: expected a swap"},
		{"supercalifragilisticexpialidocious", "line 1, column 1: unknown word `supercalifragilisticexpi...`"},
	} {
		p, err := Parse(c.src)
		if err == nil {
			t.Errorf("Parse(%q) = %q, want error %q", c.src, p.Canonical(), c.want)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("Parse(%q):\n got %v\nwant %s", c.src, err, c.want)
		}
		if strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("Parse(%q): the error has more than one line: %q", c.src, err)
		}
	}
}

func TestTruth(t *testing.T) {
	p := mustParse(t, "bits=[0,1,1] a,b,c,d,e=2,0,1,1,0 a,b=b,a d=2 assert a==0 assert bits[b]==0 assert bits[d]==")
	want := [][]int16{
		{-1, -1, -1, -1, -1}, {2, 0, 1, 1, 0}, {0, 2, 1, 1, 0}, {0, 2, 1, 2, 0}, {0, 2, 1, 2, 0}, {0, 2, 1, 2, 0}, {0, 2, 1, 2, 0},
	}
	for i := range p.Stmts() {
		s := p.After(i)
		if diff := cmp.Diff(want[i], s.Vars[:]); diff != "" {
			t.Errorf("after statement %d (-want +got):\n%s", i, diff)
		}
	}
	// A statement takes effect with its last word.
	swap := p.Stmts()[2].First
	if got := p.At(swap - 1).Vars[0]; got != 2 {
		t.Errorf("a before the swap is %d, want 2", got)
	}
	if got := p.At(swap).Vars[0]; got != 0 {
		t.Errorf("a after the swap is %d, want 0", got)
	}
	if got := p.At(swap - 2).Vars[4]; got != -1 {
		t.Errorf("e before the last pointer is %d, want undefined", got)
	}
	if s := p.At(0); s.Bits != nil || s.Vars[0] != -1 {
		t.Errorf("truth at <bos> is %+v, want nothing", s)
	}
	if s := p.At(p.Stmts()[0].Last - 1); s.Bits != nil {
		t.Errorf("bits before ] are %v, want none", s.Bits)
	}
	if bit, ok := p.Final().Bit(3); bit != 1 || !ok {
		t.Errorf("bits[d] = %d, %t, want 1", bit, ok)
	}
	q, ok := p.Query()
	if want := (Query{Stmt: 6, Pos: len(p.Tokens()) - 1, Var: 3, Bit: true, Answer: 1, Stated: -1}); !ok || q != want {
		t.Errorf("Query() = %+v, %t, want %+v", q, ok, want)
	}
	if w, ok := p.Answer(); w != "1" || !ok {
		t.Errorf("Answer() = %q, %t, want 1", w, ok)
	}
	if got := len(p.Queries()); got != 3 {
		t.Errorf("%d queries, want 3", got)
	}
	// b is 2, so bits[b] is 1, not 0.
	found := p.Check()
	if len(found) != 1 || found[0].String() != "line 1, column 58: the program states that bits[b] is 0, but it is 1" {
		t.Errorf("Check() = %v", found)
	}
	if got := mustParse(t, "a=1\nassert a==7").Check(); len(got) != 1 || got[0].String() != "line 2, column 1: the program states that a is 7, but it is 1" {
		t.Errorf("Check() = %v", got)
	}
	for _, src := range []string{"", "a=", "a=1", "assert"} {
		if w, ok := mustParse(t, src).Answer(); ok {
			t.Errorf("Answer() of %q = %q, want none", src, w)
		}
	}
}

func TestPython(t *testing.T) {
	p := mustParse(t, "bits=[0,1] a=1; assert bits[a]==")
	if diff := cmp.Diff("bits=[ 0, 1, ]\na= 1\n# assert bits[a]==\n", p.Python()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "a,b,c,d,e=range(5)\na,c=c,a\nassert a==", "bits=[0,1,1,0]\na,b,c,d,e=3,0,2,1,3\na,b=b,a\nassert bits[a]==1",
		"b,a=1,2;c=(3)", "[a,b]=[b,a]", "bits=[", "a=\\\n1", "é", "a=\xff", "\ufeffa=1", "assert (a==2)", "# x", "a,b=range(0,2,1)",
		Generate(StateBasedRecall, 8, 1, 0).Canonical(),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, err := Parse(src)
		if err != nil {
			e := err.(*Error)
			if e.Start < 0 || e.Start > e.End || e.End > len(src) || e.Line < 1 || e.Col < 1 || e.Msg == "" {
				t.Fatalf("error outside the source of %d bytes: %+v", len(src), e)
			}
			if line, col := position(src, e.Start); line != e.Line || col != e.Col {
				t.Fatalf("error at %d:%d, but offset %d is at %d:%d", e.Line, e.Col, e.Start, line, col)
			}
			return
		}
		checkSpans(t, p)
		for _, text := range []string{p.Canonical(), strings.Join(p.Words(), "\n")} {
			again, err := Parse(text)
			if err != nil {
				t.Fatalf("%q is refused: %v", text, err)
			}
			if diff := cmp.Diff(p.IDs(), again.IDs()); diff != "" {
				t.Fatalf("%q parses differently:\n%s", text, diff)
			}
			for i := range p.Stmts() {
				if p.After(i).Vars != again.After(i).Vars {
					t.Fatalf("%q has another truth after statement %d", text, i)
				}
			}
		}
		p.Check()
		p.Python()
	})
}
