package vendors

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/flyball-go/flyball/throttle"
)

// Dropbox returns the adapter for Dropbox's API.
//
// Limited is 429, and 409 with too_many_write_operations. The delay is
// error.retry_after of a body in JSON, else Retry-After. The reason
// too_many_requests is the app's for the user or team: use one governor for each
// app, with the user or team as tenant. The reason too_many_write_operations is the
// lock of a namespace, and pauses the bucket: use the namespace as one for writes.
// There are no published numbers.
//
// Evidence, read 2026-11-21: dropbox/dropbox-sdk-python:dropbox/dropbox_client.py, auth.RateLimitReason.
func Dropbox() Adapter { return Adapter{dropbox} }

var dropbox = &api{read: readDropbox}

func readDropbox(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	if r.Status != http.StatusTooManyRequests && r.Status != http.StatusConflict {
		return only(s, ok)
	}
	var reply struct {
		Summary text `json:"error_summary"`
		Error   struct {
			Tag    dropboxTag `json:".tag"`
			Reason dropboxTag `json:"reason"`
			After  text       `json:"retry_after"`
		} `json:"error"`
	}
	decode(r.Body, &reply)
	if d, valid := reply.Error.After.seconds(); valid {
		s.Delay, s.Source = d, "retry_after: "+d.String()
	}
	const writes = "too_many_write_operations"
	s.Scope.Level = throttle.Tenant
	if reply.Error.Reason == writes || reply.Error.Tag == writes || strings.HasPrefix(string(reply.Summary), writes) {
		s.Kind, s.Scope.Level, ok = throttle.KindLock, throttle.Bucket, true
	}
	return only(s, ok)
}

// dropboxTag is a union's tag: {".tag": "name"}, or the name alone.
type dropboxTag string

// UnmarshalJSON never fails.
func (t *dropboxTag) UnmarshalJSON(b []byte) error {
	var s text
	if b[0] == '{' {
		var union struct {
			Tag text `json:".tag"`
		}
		_ = json.Unmarshal(b, &union)
		s = union.Tag
	} else {
		_ = s.UnmarshalJSON(b)
	}
	*t = dropboxTag(s)
	return nil
}
