package vendortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxMutate bounds the body of a mutate, and maxOperations what it may hold.
const (
	maxMutate     = 16 << 20
	maxOperations = 10_000
)

// GoogleAdsDay is a budget of so many operations per day, as developer tokens have
// with explorer (2,880) and basic access (15,000).
func GoogleAdsDay(operations int) Quota {
	return Quota{Burst: operations, Window: 24 * time.Hour, Lenient: true}
}

// adsMutation is the body of a mutate.
type adsMutation struct {
	Operations []json.RawMessage `json:"operations"`
	All        []json.RawMessage `json:"mutateOperations"` // of googleAds:mutate
	Partial    bool              `json:"partialFailure"`
	Dry        bool              `json:"validateOnly"`
}

// mutate answers the call {resource}:mutate.
func (g *GoogleAds) mutate(w http.ResponseWriter, r *http.Request) {
	resource, ok := strings.CutSuffix(r.PathValue("call"), ":mutate")
	if !ok || !adsResource.MatchString(resource) {
		adsNotFound(w)
		return
	}
	g.serve(w, r, maxMutate, func(c *adsCall, body io.Reader) (any, error) {
		var in adsMutation
		if err := json.NewDecoder(body).Decode(&in); err != nil {
			return nil, &adsError{kind: "requestError", code: "UNKNOWN", text: "The body cannot be read: " + err.Error()}
		}
		field := "operations"
		ops := in.Operations
		if resource == "googleAds" {
			field, ops = "mutateOperations", in.All
		}
		switch n := len(ops); {
		case n == 0:
			return nil, &adsError{kind: "requestError", code: "REQUIRED_FIELD_MISSING", text: "Required field was not specified: " + field}
		case n > maxOperations:
			return nil, &adsError{kind: "requestError", code: "TOO_MANY_MUTATE_OPERATIONS", text: fmt.Sprintf("Too many operations: %d, at most %d.", n, maxOperations)}
		}
		if err := g.spend(len(ops)); err != nil {
			return nil, err
		}
		return g.apply(c, resource, ops, in)
	})
}

// spend asks the day's budget.
func (g *GoogleAds) spend(operations int) error {
	if g.operations == nil {
		return nil
	}
	v := g.operations.AdmitN(time.Now(), operations)
	switch {
	case v.Accepted:
		return nil
	case v.TooLarge: // never, in one call
		return &adsError{kind: "requestError", code: "TOO_MANY_MUTATE_OPERATIONS", text: "Too many operations for the access level."}
	}
	return &adsError{quota: true, code: "RESOURCE_EXHAUSTED", scope: "DEVELOPER", rate: "Number of operations for basic access", delay: v.Delay}
}

// apply carries operations out, each by itself. With partialFailure what fails is
// told beside what did not.
func (g *GoogleAds) apply(c *adsCall, resource string, ops []json.RawMessage, in adsMutation) (any, error) {
	results := make([]any, len(ops))
	var failed []any
	for i, op := range ops {
		name, err := g.cfg.Mutate(c.customer, resource, op)
		switch {
		case err == nil && !in.Dry:
			results[i] = map[string]string{"resourceName": name}
		default:
			results[i] = struct{}{}
		}
		if err == nil {
			continue
		}
		e, ok := errors.AsType[*adsError](err)
		if !ok {
			e = &adsError{kind: "mutateError", code: "UNKNOWN", text: err.Error()}
		}
		if !in.Partial {
			return nil, e
		}
		failed = append(failed, map[string]any{
			"errorCode": map[string]string{e.kind: e.code}, "message": e.text,
			"location": map[string]any{"fieldPathElements": []any{map[string]any{"fieldName": "operations", "index": i}}},
		})
	}
	if in.Dry {
		results = []any{}
	}
	out := map[string]any{"results": results}
	if failed != nil {
		s := (&adsError{}).status(c)
		s.Code, s.Details = 3, []any{adsFailure(c, failed)}
		out["partialFailureError"] = s
	}
	return out, nil
}

// oneResource is what Mutate does by default: what is created gets a name, what is
// updated or removed keeps it.
func (g *GoogleAds) oneResource(customer, resource string, operation json.RawMessage) (string, error) {
	var op struct {
		Create json.RawMessage `json:"create"`
		Update struct {
			Name string `json:"resourceName"`
		} `json:"update"`
		Remove string `json:"remove"`
	}
	if err := json.Unmarshal(operation, &op); err != nil {
		return "", &adsError{kind: "requestError", code: "UNKNOWN", text: "An operation cannot be read: " + err.Error()}
	}
	switch {
	case op.Update.Name != "":
		return op.Update.Name, nil
	case op.Remove != "":
		return op.Remove, nil
	}
	return fmt.Sprintf("customers/%s/%s/%d", customer, resource, g.created.Add(1)), nil
}
