//go:build !js

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
	"shellgame/model"
	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/task/playback"
	"shellgame/webgpu"
)

// lesson is a lesson as the page reads it: web/js/lesson.js.
type lesson struct {
	Name, Title, Summary string
	Pages                []lessonPage
}

type lessonPage struct {
	Title, Text string
	Choices     choices
	Predict     *struct {
		Explain, Answer string
		Options         []string
	}
	Expect, ExpectOther string
}

type choices struct {
	Task, Model, Other      string
	Program                 *string
	N                       int
	Seed                    *uint64
	Switches, OtherSwitches model.Switches
}

// answer runs a program in a model and returns the likeliest word after its last question, and the truth.
func answer(t testing.TB, name string, s model.Switches, program string) (word, truth string) {
	t.Helper()
	steps, p := play(t, name, s, program)
	q, ok := p.Query()
	if !ok {
		t.Fatalf("the program asks nothing: %s", program)
	}
	return steps[q.Pos].Top[0].Word, task.Word(q.AnswerID())
}

// play runs a whole program in a model of the zoo.
func play(t testing.TB, name string, s model.Switches, program string) ([]*model.Step, *task.Program) {
	t.Helper()
	p, err := task.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	m := zooModel(t, name)
	if err := s.Check(m.Config); err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRunner(model.Options{Tokens: 64, Seqs: 1, Slots: 2, Positions: len(p.Tokens()) + 16, Rows: len(p.Tokens()) + 80, TopK: playback.TopK, Trace: true, Switches: s})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	b, err := playback.New(r, p, playback.Options{})
	for err == nil && !b.Done() {
		_, err = b.Step(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Steps(), p
}

var zooModels = map[string]*model.Model{}

func zooModel(t testing.TB, name string) *model.Model {
	t.Helper()
	if m := zooModels[name]; m != nil {
		return m
	}
	m, err := model.Open(context.Background(), webgpu.NewCPU(), name, safetensors.Dir(filepath.Join(root, "web", "zoo", name)), nil)
	if err != nil {
		t.Fatal(err)
	}
	zooModels[name] = m
	return m
}

// lessons are the shipped ones, read by the page's own parser.
func lessons(t testing.TB) []lesson {
	t.Helper()
	const script = `
import { readFileSync } from "node:fs";
import { parseLesson } from "./web/js/lesson.js";
const index = JSON.parse(readFileSync("web/lessons/index.json", "utf8"));
console.log(JSON.stringify(index.map((l) => ({ ...parseLesson(readFileSync("web/lessons/" + l.name + ".md", "utf8")), name: l.name }))));`
	node := exec.Command("node", "--input-type=module", "-e", script)
	node.Dir = root
	out, err := node.Output()
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE_DEVICES"), "node") {
			t.Fatalf("node: %v", err)
		}
		t.Skipf("node reads the lessons: %v", err)
	}
	var all []lesson
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// What a lesson says of an answer is what the model answers, and every share that it quotes was measured.
func TestLessonsAreTrue(t *testing.T) {
	all := lessons(t)
	if len(all) != 6 {
		t.Errorf("got %d lessons, want 6", len(all))
	}
	var index struct {
		Models []struct {
			Name     string
			Accuracy []struct{ N int }
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "web", "zoo", "index.json"))
	if err == nil {
		err = json.Unmarshal(data, &index)
	}
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, m := range index.Models {
		for _, a := range m.Accuracy {
			measured[fmt.Sprintf("{accuracy %s %d}", m.Name, a.N)] = true
		}
	}
	quote := regexp.MustCompile(`\{accuracy [^}]*\}`)
	for _, l := range all {
		t.Run(l.Name, func(t *testing.T) {
			if n := len(l.Pages); n < 4 || n > 7 {
				t.Errorf("got %d pages, want 4 to 7", n)
			}
			checked := 0
			for i, p := range l.Pages {
				text := p.Text
				if p.Predict != nil {
					text += p.Predict.Explain
					if slices.Contains(p.Predict.Options, p.Expect) && p.Predict.Answer != p.Expect {
						t.Errorf("page %d: the right option is %q, but the model is to say %q", i+1, p.Predict.Answer, p.Expect)
					}
				}
				for _, q := range quote.FindAllString(text, -1) {
					if !measured[q] {
						t.Errorf("page %d: %s was not measured", i+1, q)
					}
				}
				c := p.Choices
				if c.Model == "" {
					t.Errorf("page %d names no model", i+1)
				}
				for _, side := range []struct {
					model, expect string
					switches      model.Switches
				}{{c.Model, p.Expect, c.Switches}, {c.Other, p.ExpectOther, c.OtherSwitches}} {
					if side.expect == "" {
						continue
					}
					checked++
					if err := says(answer(t, side.model, side.switches, p.program()))(side.expect); err != nil {
						t.Errorf("page %d, %s: %v", i+1, side.model, err)
					}
				}
			}
			if checked == 0 {
				t.Error("no page says what its model answers")
			}
		})
	}
}

// program is what a page runs.
func (p lessonPage) program() string {
	if p.Choices.Program != nil {
		return *p.Choices.Program
	}
	n, seed := 8, uint64(1)
	if p.Choices.N != 0 {
		n = p.Choices.N
	}
	if p.Choices.Seed != nil {
		seed = *p.Choices.Seed
	}
	return task.Generate(task.Task(p.Choices.Task), n, seed, 0).Canonical()
}

// says compares an answer with what a page expects: a word, right or wrong.
func says(word, truth string) func(expect string) error {
	return func(expect string) error {
		ok := word == expect
		if expect == "right" || expect == "wrong" {
			ok = (word == truth) == (expect == "right")
		}
		if !ok {
			return fmt.Errorf("it says %s where %s is true, the page expects %s", word, truth, expect)
		}
		return nil
	}
}

func TestSays(t *testing.T) {
	for _, c := range []struct {
		word, truth, expect string
		ok                  bool
	}{{"1", "1", "right", true}, {"1", "1", "1", true}, {"1", "2", "wrong", true}, {"1", "2", "1", true}, {"1", "2", "right", false}, {"1", "1", "wrong", false}, {"1", "1", "2", false}} {
		if err := says(c.word, c.truth)(c.expect); (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Numbers that lessons name besides their models' answers.
func TestLessonNumbers(t *testing.T) {
	for beta, want := range map[string]int{"clamp": 4, "sigmoid": 5} {
		right := 0
		for seed := uint64(1); seed <= 8; seed++ {
			word, truth := answer(t, "st-gdn-neg", model.Switches{Beta: beta}, task.Generate(task.StateTracking, 8, seed, 0).Canonical())
			if word == truth {
				right++
			}
			if beta == "sigmoid" && seed == 3 && word != "2" {
				t.Errorf("sigmoid, seed 3: got %s, want 2", word)
			}
		}
		if right != want {
			t.Errorf("%s: %d of 8 right, the lesson says %d", beta, right, want)
		}
	}
	steps, _ := play(t, "st-gdn-neg", model.Switches{}, task.Generate(task.StateTracking, 8, 1, 0).Canonical())
	for _, s := range steps[2:10] {
		if l := s.Layers[0]; l.Alpha[0] < 0.995 || l.Beta[0] < 1.995 {
			t.Errorf("st-gdn-neg, word %d, layer 0, head 0: alpha %.4f, beta %.4f, the lesson says 1.00 and 2.00", s.T, l.Alpha[0], l.Beta[0])
		}
	}
	steps, _ = play(t, "recall-transformer", model.Switches{}, "bits=[ 0, 1, 1, 0, 1, 0, 0, 1, ] a= 5 assert bits[a]==")
	if w := steps[14].Layers[2].Rows.Data[7]; w < 0.85 || w > 0.9 {
		t.Errorf("recall-transformer gives word 7 a weight of %.3f, the lesson says almost nine tenths", w)
	}
	const pointers = "bits=[ 0, 1, 1, 0, 1, 0, 0, 1, ] a,b,c,d,e= 3, 0, 2, 1, 5, a,c=c,a b,e=e,b assert bits[a]=="
	steps, _ = play(t, "sbr-constructed", model.Switches{}, pointers)
	if w := steps[20].Layers[3].Rows.Data[4]; w < 0.999 {
		t.Errorf("sbr-constructed gives word 4 a weight of %.3f, the lesson says all", w)
	}
	steps, _ = play(t, "sbr-constructed", model.Switches{Layers: []int{3}}, pointers)
	if top := steps[20].Top; top[0].P > 1.001*top[7].P {
		t.Errorf("sbr-constructed without attention prefers %s, the lesson says nothing in particular", top[0].Word)
	}
	if word, truth := answer(t, "sbr-constructed", model.Switches{Beta: "clamp"}, pointers); word == truth {
		t.Error("sbr-constructed with beta clamped is right, the lesson says wrong")
	}
}

// The lesson on precision says that the state's error grows slowly: about twice as large after four
// times as many words.
func TestDriftIsSlow(t *testing.T) {
	program := task.Generate(task.StateTracking, 128, 1, 0).Canonical()
	exact, _ := play(t, "st-gdn-neg", model.Switches{}, program)
	rounded, _ := play(t, "st-gdn-neg", model.Switches{Store: "bf16"}, program)
	distance := func(from, to int) float64 { // the mean over steps and layers of RMS difference over RMS
		var sum float64
		for i := from; i < to; i++ {
			for l := range exact[i].Layers {
				var d, n float64
				for j, x := range exact[i].Layers[l].State.Data {
					y := rounded[i].Layers[l].State.Data[j]
					d += float64(x-y) * float64(x-y)
					n += float64(x) * float64(x)
				}
				sum += math.Sqrt(d/n) / float64((to-from)*len(exact[i].Layers))
			}
		}
		return sum
	}
	early, late := distance(21, 41), distance(104, 124)
	t.Logf("relative error of the state: %.2g at words 21 to 40, %.2g at 104 to 123", early, late)
	if early < 1e-4 || late < 1.3*early || late > 3*early {
		t.Errorf("got %.2g and %.2g, want about twice as much after four times as many words", early, late)
	}
}

// A lesson in the page: pages set the picture, a guess comes before the answer, the link and the
// browser's steps back keep the place, keys turn pages, and closing it gives the controls back.
func TestLesson(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 900}, "?device=cpu")
	p.live("st-constructed")
	p.click("lessons")
	p.wait("document.querySelectorAll('#lessons-box li button').length === 6")
	p.shot("lessons")
	eval[bool](p, "(document.querySelector('#lessons-box li button').click(), true)")
	p.wait("s.words.length === 6 && s.t === 1 && !s.busy && document.querySelector('.predict')")
	if got := p.text("answer"); !strings.Contains(got, "asked at the end") {
		t.Errorf("before the guess the page says %q", got)
	}
	if eval[bool](p, "!!document.querySelector('.explain')") {
		t.Error("the explanation is there before the guess")
	}
	guess := func(text string) {
		t.Helper()
		eval[bool](p, fmt.Sprintf("([...document.querySelectorAll('.option')].find((b) => b.textContent === %q).click(), true)", text))
	}
	guess("1")
	p.wait("s.answer && !s.busy")
	if got := eval[string](p, "document.querySelector('.explain').textContent"); !strings.HasPrefix(got, "No: 0.") {
		t.Errorf("after a wrong guess the page says %q", got)
	}
	if got := p.text("answer"); !strings.Contains(got, "model says 0") {
		t.Errorf("after the guess the page says %q", got)
	}
	p.shot("lesson-guess")
	p.key("n")
	p.wait("s.choices.page === 1 && s.t === 1 && !s.busy")
	p.key("n")
	p.wait("s.choices.page === 2 && s.t === 1 && s.choices.panel === 'anatomy' && !s.busy")
	if got := eval[int](p, "document.querySelectorAll('.pointer:not([hidden])').length"); got != 1 {
		t.Errorf("%d places are pointed at, want 1", got)
	}
	near := eval[float64](p, "(r => Math.abs(r.left - document.querySelector('#panels').getBoundingClientRect().left))(document.querySelector('.pointer').getBoundingClientRect())")
	if near > 12 {
		t.Errorf("the pointer is %.0f pixels away from its place", near)
	}
	link := p.address("c.page === 2")
	p.shot("lesson-mirror")
	eval[bool](p, "(history.back(), true)")
	p.wait("s.choices.page === 1 && s.t === 1 && !s.busy && document.getElementById('lesson-title').textContent === 'The memory is a matrix'")
	eval[bool](p, "(document.querySelector('.lesson-close').click(), true)")
	p.wait("s.choices.lesson === '' && document.getElementById('lesson').hidden && document.getElementById('setup').open")
	p.quiet()

	q := open(t, chrome.Options{Width: 390, Height: 844, Scale: 2, Dark: true}, strings.TrimPrefix(link, site(t)))
	q.live("st-constructed")
	q.at(1)
	if got := q.text("lesson-title"); got != "A swap is a mirror" {
		t.Errorf("the link opens the page %q", got)
	}
	if wide := eval[int](q, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		t.Errorf("the page is %d pixels wider than its window", wide)
	}
	q.shot("lesson-phone")
	q.quiet()
}

// Every page of every lesson opens in the page, without a word of complaint, and says what it should.
func TestLessonsOpen(t *testing.T) {
	all := lessons(t)
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?device=cpu")
	p.live("st-constructed")
	for _, l := range all {
		t.Run(l.Name, func(t *testing.T) {
			p.TB = t
			for i, page := range l.Pages {
				if !whole && i > 0 && i < len(l.Pages)-1 {
					continue
				}
				p.goTo(fmt.Sprintf("%s?device=cpu&lesson=%s#v=1&j={\"page\":%d}", site(t), l.Name, i))
				p.wait(fmt.Sprintf("s.phase === 'live' && !s.busy && document.getElementById('lesson-title')?.textContent === %q && s.model === %q", page.Title, page.Choices.Model))
				for _, key := range []string{"link", "lesson", "work", "model", "step"} {
					if got := p.notice(key); got != "" {
						t.Errorf("page %d: the page says %q", i+1, got)
					}
				}
				if got := eval[string](p, "document.querySelector('.lesson-text').textContent"); strings.Contains(got, "{accuracy") || strings.Contains(got, "null") {
					t.Errorf("page %d: the text has something unfilled: %q", i+1, got)
				}
				p.shot(fmt.Sprintf("lesson-%s-%d", l.Name, i+1))
				p.quiet()
			}
		})
	}
}

// A teacher's own lesson comes from another server; what is wrong with one is a line.
func TestOwnLesson(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		switch r.URL.Path {
		case "/good.md":
			fmt.Fprint(w, "---\ntitle: Mine\n---\n---page---\ntitle: <b>One</b>\ntask: st\nmodel: st-gdn-pos\nn: 4\nt: end\n---\nHello <img src=x onerror=\"globalThis.stolen = 1\"> <script>globalThis.stolen = 1</script> [x](javascript:stolen=1)\n")
		case "/bad.md":
			fmt.Fprint(w, "---\ntitle: Mine\n---\n---page---\ntitle: One\ncolour: red\n---\n")
		case "/long.md":
			fmt.Fprint(w, strings.Repeat("x", 1<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	defer other.Close()
	p := open(t, chrome.Options{}, "?device=cpu&lesson="+url.QueryEscape(other.URL+"/good.md"))
	p.live("st-gdn-pos")
	p.wait("s.n === 4 && s.t === s.words.length - 2")
	if got := p.text("lesson-title"); got != "<b>One</b>" {
		t.Errorf("the title is %q", got)
	}
	if got := eval[string](p, "document.querySelector('.lesson-text').innerText"); !strings.Contains(got, "<img src=x") || !strings.Contains(got, "<script>") {
		t.Errorf("the text is %q, want its HTML as text", got)
	}
	if eval[bool](p, "'stolen' in globalThis || !!document.querySelector('#lesson :is(img, script, a)')") {
		t.Error("something of the lesson became part of the page")
	}
	p.shot("lesson-own")
	p.quiet()
	for path, want := range map[string]string{"/bad.md": "line 6: there is no setting colour here", "/long.md": "it has more than 262144 characters", "/none.md": "the server answered 404"} {
		p.goTo(site(t) + "?device=cpu&lesson=" + url.QueryEscape(other.URL+path))
		p.wait("s.phase === 'live' && !s.busy")
		if got := p.notice("lesson"); !strings.Contains(got, want) {
			t.Errorf("%s: the page says %q, want %q", path, got, want)
		}
	}
}

// The proof of the lesson on chunks runs in the page, on the device at hand, and covers both forms.
func TestLessonCheck(t *testing.T) {
	p := open(t, chrome.Options{}, `?lesson=chunks#v=1&j={"page":3}`)
	p.live("st-gdn-neg")
	eval[bool](p, "(document.querySelector('.live-check button').click(), true)")
	if err := p.Wait("document.querySelector('.live-check table')", 2*time.Minute); err != nil {
		t.Fatal(err, eval[string](p, "document.querySelector('.live-check').textContent"))
	}
	if got := eval[string](p, "document.querySelector('.live-check p').textContent"); !strings.Contains(got, "all agree with plain Go") {
		t.Errorf("the check says %q", got)
	}
	names := eval[string](p, "[...document.querySelectorAll('.live-check tbody th')].map((e) => e.textContent).join(' ')")
	for _, want := range []string{"gdn_wy", "gdn_chunk", "gdn_step"} {
		if !strings.Contains(names, want) {
			t.Errorf("%s is not among %s", want, names)
		}
	}
	p.shot("lesson-check")
	p.quiet()
}
