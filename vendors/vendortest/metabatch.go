package vendortest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// metaParams are a call's parameters, from its address and its body, a form or JSON.
func metaParams(r *http.Request) (url.Values, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		err := r.ParseForm()
		return r.Form, err
	}
	params := r.URL.Query()
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil && !errors.Is(err, io.EOF) { // without a body there are none
		return nil, err
	}
	for k, v := range in {
		if s, ok := v.(string); ok {
			params.Set(k, s)
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		params.Set(k, string(b))
	}
	return params, nil
}

func metaTrim(path string) string {
	if at := metaVersion.FindStringIndex(path); at != nil {
		path = path[at[1]:]
	}
	return strings.Trim(path, "/")
}

// batch answers each of the calls of a batch by itself.
func (m *Meta) batch(w http.ResponseWriter, token, batch string) {
	var calls []struct {
		Method string `json:"method"`
		URL    string `json:"relative_url"`
		Body   string `json:"body"`
	}
	if err := json.Unmarshal([]byte(batch), &calls); err != nil {
		metaSend(w, metaFault(100, 0, "(#100) Invalid parameter: batch must be a JSON array"))
		return
	}
	if len(calls) > 50 {
		metaSend(w, metaFault(100, 0, "(#100) Too many requests in batch message. Maximum batch size is 50"))
		return
	}
	type header struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type item struct {
		Code    int      `json:"code"`
		Headers []header `json:"headers"`
		Body    string   `json:"body"`
	}
	answers := make([]item, len(calls))
	for i, c := range calls {
		path, query, _ := strings.Cut(c.URL, "?")
		params, err := url.ParseQuery(query)
		if body, bad := url.ParseQuery(c.Body); err == nil && bad == nil {
			for k, v := range body {
				params[k] = v
			}
		}
		a := metaFault(100, 0, "(#100) Invalid parameter: relative_url")
		if err == nil {
			a = m.call(token, strings.ToUpper(c.Method), metaTrim("/"+strings.TrimPrefix(path, "/")), params)
		}
		answers[i] = item{Code: a.status, Body: string(a.body())}
		for _, name := range []string{"X-App-Usage", "X-Ad-Account-Usage", "X-Business-Use-Case-Usage"} {
			if v := a.header.Get(name); v != "" {
				answers[i].Headers = append(answers[i].Headers, header{name, v})
			}
		}
	}
	reply(w, http.StatusOK, answers)
}

// metaReply is the answer to one call.
type metaReply struct {
	status int
	header http.Header
	value  any
}

func (a metaReply) body() []byte {
	b, err := json.Marshal(a.value)
	if err != nil { // an answer of the test's own that is no JSON
		b = []byte(`{"error":{"message":"An unknown error occurred","type":"OAuthException","code":1}}`)
	}
	return b
}

func metaSend(w http.ResponseWriter, a metaReply) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	reply(w, a.status, a.value)
}

func metaFault(code, subcode int, message string) metaReply {
	e := map[string]any{"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "vendortest"}
	if subcode != 0 {
		e["error_subcode"] = subcode
	}
	status := http.StatusBadRequest
	if code == 4 {
		status = http.StatusForbidden
	}
	return metaReply{status, http.Header{}, map[string]any{"error": e}}
}

func percentOf(u Usage) int { return min(100*u.Used/u.Limit, 999) }

func minutes(d time.Duration) string { return strconv.Itoa(int(ceil(d, time.Minute) / time.Minute)) }
