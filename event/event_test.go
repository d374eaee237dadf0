package event

import (
	"encoding/json"
	"testing"
	"time"
)

func TestEventsSurviveJSON(t *testing.T) {
	for k := None; k < kinds; k++ {
		want := Event{Time: time.Unix(1, 0).UTC(), Kind: k, Name: "n", Attempt: 2, Delay: time.Second, Source: "s"}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Event
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%s became %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"kind":"x"}`, `{"kind":"invalid"}`, `{"kind":""}`} {
		if err := json.Unmarshal([]byte(text), new(Event)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
