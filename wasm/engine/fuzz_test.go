package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"shellgame/model/check"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// FuzzHandle: whatever messages come, one a line, each has one answer with its number and at most
// one line of error, and the engine goes on.
func FuzzHandle(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"type":"run","program":"a,b,c,d,e=range(5) a,c=c,a assert a==","belief":true}` + "\n" + `{"id":2,"type":"step","count":2,"full":true}` + "\n" + `{"id":3,"type":"trace","every":2}`,
		`{"id":1,"type":"run","program":"a,b,c,d,e=range(5)\na,c=c,a\nassert a==","switches":{"beta":"clamp","decay":false,"conv":false,"gate":false,"layers":[0],"heads":[[0,0]],"store":"bf16"},"patches":[{"t":0,"from":"zero","layer":0,"head":0},{"t":1,"from":"program","program":"a,b,c,d,e=range(5)","at":0}]}` + "\n" + `{"id":2,"type":"seek","t":2}` + "\n" + `{"id":3,"type":"back","count":1}`,
		`{"id":4,"type":"load","lane":1,"model":"sbr-constructed"}` + "\n" + `{"id":5,"type":"run","lane":1,"program":"bits=[0,1] a,b,c,d,e=0,1,0,1,0 assert bits[a]=="}` + "\n" + `{"id":6,"type":"seek","lane":1,"t":3}` + "\n" + `{"id":7,"type":"maps","lane":1,"layer":3,"head":0}` + "\n" + `{"id":8,"type":"show","lane":"diff"}`,
		`{"id":1,"type":"run","program":"a,b,c,d,e=range(5) a,c=c,a"}` + "\n" + `{"id":2,"type":"seek","t":2}` + "\n" + `{"id":3,"type":"anatomy","t":1,"layer":0,"head":0}` + "\n" + `{"id":4,"type":"maps","layer":0,"head":0,"from":1}` + "\n" + `{"id":5,"type":"steps","from":0,"to":2}`,
		`{"id":1,"type":"curve","task":"st","models":["st-constructed"],"levels":[4],"samples":2,"seed":1}` + "\n" + `{"id":2,"type":"answers","models":["st-constructed"],"program":"a,b,c,d,e=range(5) assert a=="}` + "\n" + `{"id":3,"type":"drift","program":"a,b,c,d,e=range(5) assert a==","store":"f16"}` + "\n" + `{"id":4,"type":"cancel"}`,
		`{"id":1,"type":"generate","task":"sbr","n":4,"seed":1}` + "\n" + `{"id":2,"type":"parse","program":"a= 1"}` + "\n" + `{"id":3,"type":"view","layer":0,"head":0}` + "\n" + `{"id":4,"type":"theme","theme":"dark"}` + "\n" + `{"id":5,"type":"visible","visible":false}` + "\n" + `{"id":6,"type":"reset"}`,
		`{"id":1,"type":"load","model":"st-constructed","weights":"int4","measure":true}` + "\n" + `{"id":2,"type":"cancel","what":"load"}` + "\n" + `{"id":3,"type":"load","model":"sbr-constructed","weights":"int8"}` + "\n" + `{"id":4,"type":"run","program":"bits=[0,1] a,b,c,d,e=0,1,0,1,0 assert bits[a]=="}` + "\n" + `{"id":5,"type":"seek","t":3}`,
		`{"id":1,"type":"inspect","ids":[1,7,20,30],"at":2,"top":3}` + "\n" + `{"id":2,"type":"inspect","ids":[1,7,20,30],"at":0}` + "\n" + `{"id":3,"type":"cancel","what":"inspect"}` + "\n" + `{"id":4,"type":"inspect","ids":[5],"at":-1,"top":-1}`,
		`null` + "\n" + `[]` + "\n" + `{"id":"x"}` + "\n" + `{"lane":7}` + "\n" + `{"id":1,"type":"seek","t":99999999999}` + "\n" + `{"id":1,"type":"load","model":"../../etc"}`,
	} {
		f.Add([]byte(s))
	}
	known := []string{"st-constructed", "sbr-constructed"}
	f.Fuzz(func(t *testing.T, data []byte) {
		messages := bytes.Split(data, []byte("\n"))
		if len(messages) > 8 {
			return
		}
		e := New(Hooks{
			Event: func(Event) {},
			Files: func(_ context.Context, base, model string) safetensors.Files {
				for _, name := range known {
					if name == model {
						return safetensors.Dir(filepath.Join("../../web/zoo", name))
					}
				}
				return safetensors.FS(fstest.MapFS{})
			},
			Open: func(context.Context, string) (check.Opened, error) {
				return check.Opened{Device: webgpu.NewCPU(), Trusted: true}, nil
			},
		})
		ask := func(message []byte, patience time.Duration) (r struct {
			SG, Re int
			OK     bool
			Error  string
		},
		) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			reply := e.Handle(ctx, message)
			if err := json.Unmarshal(reply, &r); err != nil {
				t.Fatalf("%q: got %q: %v", message, reply, err)
			}
			if r.SG != 1 || r.OK != (r.Error == "") || strings.ContainsAny(r.Error, "\n\r") {
				t.Fatalf("%q: got %.400q", message, reply)
			}
			return r
		}
		if r := ask([]byte(`{"type":"init","device":"cpu"}`), time.Minute); !r.OK {
			t.Fatal(r.Error)
		}
		if r := ask([]byte(`{"type":"load","model":"st-constructed"}`), time.Minute); !r.OK {
			t.Fatal(r.Error)
		}
		for _, message := range messages {
			var q struct {
				ID   int    `json:"id"`
				Type string `json:"type"`
			}
			if json.Unmarshal(message, &q) != nil || q.Type == "check" { // which tells little and takes seconds
				q.ID = 0
			}
			if q.Type == "check" {
				continue
			}
			// What is large takes long, and that is no fault.
			if r := ask(message, 300*time.Millisecond); r.OK && r.Re != q.ID {
				t.Fatalf("%q: the answer is to request %d", message, r.Re)
			}
		}
		if r := ask([]byte(`{"id":9,"type":"parse","program":"a= 1"}`), time.Minute); !r.OK || r.Re != 9 {
			t.Fatalf("after %q: got %+v", data, r)
		}
	})
}
