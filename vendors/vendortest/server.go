package vendortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"
)

// maxRequest bounds the body of a request that a server reads.
const maxRequest = 1 << 20

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil { // an answer of the test's own that is no JSON
		http.Error(w, "vendortest: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have gone
}

// decode reads a request's JSON body.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(v)
}

// body reads a request's body whole.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
}

// client is who makes a call: its credentials, or where it comes from.
func client(r *http.Request, header string) string {
	if v := r.Header.Get(header); v != "" {
		return v
	}
	return address(r)
}

// address is where a call comes from.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}

// tariff makes the limits of a server: those that were given, and the documented
// ones at its scale.
type tariff struct {
	scale float64
	keys  int
	errs  []error
}

func newTariff(scale float64, keys int) *tariff {
	t := &tariff{scale: scale, keys: keys}
	if scale == 0 {
		t.scale = 1
	}
	if !(t.scale > 0) || math.IsInf(t.scale, 0) {
		t.errs = append(t.errs, fmt.Errorf("vendortest: Scale %v is not a positive number", scale))
	}
	return t
}

func (t *tariff) quota(given *Quota, documented Quota) Quota {
	if given != nil {
		return *given
	}
	return documented.Scale(t.scale)
}

func (t *tariff) keyed(field string, given *Quota, documented Quota) *Keyed {
	k, err := NewKeyed(t.quota(given, documented), t.keys)
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", field, err))
	}
	return k
}

// optional is keyed for a limit of which no number is published: nil without one.
func (t *tariff) optional(field string, given *Quota) *Keyed {
	if given == nil {
		return nil
	}
	return t.keyed(field, given, Quota{})
}

// atLeast checks a number that has a least value.
func (t *tariff) atLeast(field string, v, least int) {
	if v < least {
		t.errs = append(t.errs, fmt.Errorf("vendortest: %s is %d, want at least %d", field, v, least))
	}
}

func (t *tariff) err() error { return errors.Join(t.errs...) }

// wholeSeconds writes a time as a header that has only those, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(ceil(max(0, d), time.Second)/time.Second), 10)
}

// unixSeconds writes a moment as Unix seconds, rounded up.
func unixSeconds(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
