package vendortest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// oneRow is what Rows finds by default.
func oneRow(customer, _ string) ([]any, error) {
	name := "customers/" + customer
	return []any{map[string]any{"customer": map[string]string{"resourceName": name, "id": customer}}}, nil
}

// read decodes a call's body.
func (c *adsCall) read(body io.Reader) error {
	if err := json.NewDecoder(body).Decode(c); err != nil {
		return &adsError{kind: "requestError", code: "UNKNOWN", text: "The body cannot be read: " + err.Error()}
	}
	switch {
	case c.Query == "":
		return &adsError{kind: "requestError", code: "REQUIRED_FIELD_MISSING", text: "Required field was not specified: query"}
	case c.Size != 0:
		return &adsError{kind: "requestError", code: "PAGE_SIZE_NOT_SUPPORTED", text: "Setting the page size is not supported."}
	}
	return nil
}

// search answers one page. Its token is the number of the first row.
func (g *GoogleAds) search(c *adsCall) (any, error) {
	rows, err := g.cfg.Rows(c.customer, c.Query)
	if err != nil {
		return nil, err
	}
	from := 0
	if c.Token != "" {
		if from, err = strconv.Atoi(c.Token); err != nil || from < 1 || from >= len(rows) {
			return nil, &adsError{kind: "requestError", code: "INVALID_PAGE_TOKEN", text: "The page token is invalid."}
		}
	}
	to := min(len(rows), from+g.cfg.Batch)
	page := map[string]any{"results": rows[from:to]}
	if to < len(rows) {
		page["nextPageToken"] = strconv.Itoa(to)
	}
	return page, nil
}

// stream answers all rows in an array of batches.
func (g *GoogleAds) stream(c *adsCall) (any, error) {
	rows, err := g.cfg.Rows(c.customer, c.Query)
	if err != nil {
		return nil, err
	}
	batches := []any{}
	for from := 0; from < len(rows); from += g.cfg.Batch {
		batches = append(batches, map[string]any{"results": rows[from:min(len(rows), from+g.cfg.Batch)], "requestId": c.id})
	}
	return batches, nil
}

func (g *GoogleAds) list(*adsCall) (any, error) {
	names := make([]string, len(g.cfg.Customers))
	for i, id := range g.cfg.Customers {
		names[i] = "customers/" + id
	}
	return map[string]any{"resourceNames": names}, nil
}

// adsError is one GoogleAdsError: of a quota, or another one.
type adsError struct {
	quota       bool
	scope, rate string
	delay       time.Duration

	kind, code, text string // such as requestError, INVALID_CUSTOMER_ID
}

func (e *adsError) Error() string { return e.text }

// adsStatus is the google.rpc.Status of a failed call.
type adsStatus struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []any  `json:"details,omitempty"`
}

// body wraps the status as the two kinds of call do: a stream's is the one
// element of an array.
func (s adsStatus) body(stream bool) any {
	b := map[string]any{"error": s}
	if stream {
		return []any{b}
	}
	return b
}

// status returns the whole failure of one error.
func (e *adsError) status(c *adsCall) adsStatus {
	s := adsStatus{http.StatusBadRequest, "Request contains an invalid argument.", "INVALID_ARGUMENT", nil}
	inner := map[string]any{"errorCode": map[string]string{e.kind: e.code}, "message": e.text}
	if e.quota {
		s = adsStatus{http.StatusTooManyRequests, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED", nil}
		inner = map[string]any{
			"errorCode": map[string]string{"quotaError": cmp.Or(e.code, "RESOURCE_TEMPORARILY_EXHAUSTED")},
			"message":   fmt.Sprintf("Too many requests. Retry in %.0f seconds.", math.Ceil(e.delay.Seconds())),
			"details": map[string]any{"quotaErrorDetails": map[string]string{
				"rateScope": e.scope, "rateName": e.rate, "retryDelay": protoJSON(e.delay),
			}},
		}
	}
	s.Details = []any{adsFailure(c, []any{inner})}
	return s
}

// adsFailure is a GoogleAdsFailure of the call's version.
func adsFailure(c *adsCall, errs []any) map[string]any {
	version := c.version
	if !adsVersion.MatchString(version) {
		version = "v0"
	}
	return map[string]any{
		"@type":     "type.googleapis.com/google.ads.googleads." + version + ".errors.GoogleAdsFailure",
		"errors":    errs,
		"requestId": c.id,
	}
}

// protoJSON writes a positive duration as proto-JSON does: seconds with none,
// three, six or nine decimals.
func protoJSON(d time.Duration) string {
	s := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	for range 3 {
		s = strings.TrimSuffix(s, "000")
	}
	return strings.TrimSuffix(s, ".") + "s"
}
