//go:build !js

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
	"shellgame/internal/chrome/chrometest"
)

// A browser that is killed while weights arrive keeps no half of them: the next one, with the same
// profile, fetches them again and runs them. Once they were whole, they are kept.
func TestKilledWhileKeeping(t *testing.T) {
	if !whole {
		t.Skip("takes a minute: E2E=whole")
	}
	dir := filepath.Join(root, "web", "zoo", "st-gdn-neg")
	data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Int64 // bytes of weights after which nothing comes
	var asked atomic.Int64
	sent := make(chan bool, 9)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Expose-Headers", "Content-Range, ETag")
		if !strings.HasSuffix(r.URL.Path, "/model.safetensors") {
			http.ServeFile(w, r, filepath.Join(dir, filepath.Base(r.URL.Path)))
			return
		}
		h.Set("ETag", `"the same"`)
		if r.Header.Get("Range") == "bytes=0-0" || stop.Load() == 0 {
			if r.Header.Get("Range") != "bytes=0-0" {
				asked.Add(1)
			}
			http.ServeFile(w, r, filepath.Join(dir, "model.safetensors"))
			return
		}
		h.Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:stop.Load()])
		w.(http.Flusher).Flush()
		sent <- true
		<-r.Context().Done()
	}))
	defer srv.Close()
	for _, percent := range []int{60, 30, 99} {
		t.Run(fmt.Sprintf("at %d percent", percent), func(t *testing.T) {
			o := chrome.Options{Flags: []string{"user-data-dir=" + t.TempDir()}}
			address := fmt.Sprintf("%s/%d", srv.URL, percent)
			stop.Store(int64(len(data) * percent / 100))
			p := open(t, o, "?device=cpu&stage=no&task=st&model=st-constructed&n=4")
			p.live("st-constructed")
			eval[bool](p, fmt.Sprintf(`((f) => { f.postMessage({sg: 1, id: 9e6, type: "load", model: %q}, location.origin); return true; })(document.querySelector("iframe").contentWindow)`, address))
			<-sent
			time.Sleep(500 * time.Millisecond) // what has come is written
			if err := chromedp.FromContext(p.Chrome.Context()).Browser.Process().Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.Done()

			stop.Store(0)
			for i, want := range []int64{1, 0} {
				asked.Store(0)
				q := page{t, chrometest.Start(t, o)}
				q.goTo(site(t) + "?device=cpu&stage=no&task=st&model=st-constructed&n=4")
				q.live("st-constructed")
				if got := q.loadMessage(address); !strings.Contains(got, `"ok":true`) || !strings.Contains(got, `"params":`) {
					t.Fatalf("load %d after the kill: %s", i+1, got)
				}
				q.request(`{type: "run", program: "a,b,c,d,e=range(5) a,c=c,a b,d=d,b assert a=="}`)
				if got := q.request(`{type: "seek", t: 5}`); !strings.Contains(got, `"top":[{"id":`) || !strings.Contains(got, `"word":"2"`) {
					t.Errorf("load %d after the kill: the model says %.300s, want 2", i+1, got)
				}
				if got := asked.Load(); got < want || want == 0 && got != 0 {
					t.Errorf("load %d after the kill: the weights were fetched %d times, want %d", i+1, got, want)
				}
				q.Close()
			}
		})
	}
}
