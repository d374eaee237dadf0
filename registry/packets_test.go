package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

func newPackets(t *testing.T, cfg registry.PermitsConfig) (*registry.Packets, func()) {
	t.Helper()
	p := newPermits(t, cfg)
	s, err := registry.NewPackets(registry.PacketsConfig{Permits: p})
	require.NoError(t, err)
	return s, func() { s.Close(); p.Close() }
}

// ask sends a packet and returns the data of the reply, or its error.
func ask(t *testing.T, s *registry.Packets, operation, data string) (map[string]any, *registry.ErrorDetail) {
	t.Helper()
	r := s.Do(t.Context(), registry.Packet{Operation: operation, Data: json.RawMessage(data)})
	require.Equal(t, operation, r.Operation)
	if r.ErrorDetail != nil {
		require.Equal(t, registry.StatusError, r.Status)
		require.Nil(t, r.Data)
		return nil, r.ErrorDetail
	}
	require.Equal(t, registry.StatusOK, r.Status)
	var got map[string]any
	require.NoError(t, json.Unmarshal(r.Data, &got))
	return got, nil
}

func TestPacketsOperateOnMetadata(t *testing.T) {
	s, end := newPackets(t, registry.PermitsConfig{})
	defer end()
	for _, c := range [][2]string{
		{`{"headers": [{"id": 7}, "x"], "operation": "metadata:get", "data": {"key": "bulkhead:x"}}`,
			`{"headers":[{"id":7},"x"],"operation":"metadata:get","data":{"key":"bulkhead:x","version":0},"status":"OK"}`},
		{`{"operation": "metadata:put", "data": {"key": "BulkHead:x", "value": {"maxConcurrentCalls": 2, "etc": "..."}}}`,
			`{"operation":"metadata:put","data":{"key":"bulkhead:x","value":{"maxConcurrentCalls":2,"etc":"..."},"version":1},"status":"OK"}`},
		{`{"operation": "metadata:get", "data": {"key": "bulkhead:x"}, "status": "", "errorDetail": null, "headers": null}`,
			`{"operation":"metadata:get","data":{"key":"bulkhead:x","value":{"maxConcurrentCalls":2,"etc":"..."},"version":1},"status":"OK"}`},
		{`{"operation": "metadata:list", "data": {"prefix": "bulk", "limit": 5}}`,
			`{"operation":"metadata:list","data":{"records":[{"key":"bulkhead:x","value":{"maxConcurrentCalls":2,"etc":"..."},"version":1}]},"status":"OK"}`},
		{`{"operation": "metadata:delete", "data": {"key": "bulkhead:x", "version": 1}}`, `{"operation":"metadata:delete","data":{},"status":"OK"}`},
		{`{"operation": "metadata:list", "data": {}}`, `{"operation":"metadata:list","data":{"records":[]},"status":"OK"}`},
		{`{"operation": "ratelimiter:acquire", "data": {"key": "t-RateLimiter:x", "permits": 2}}`, `{"operation":"ratelimiter:acquire","data":{"key":"t-ratelimiter:x","permit":""},"status":"OK"}`},
	} {
		require.Equal(t, c[1], string(s.Handle(t.Context(), []byte(c[0]))), c[0])
	}
}

func TestPacketsAcquireAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, end := newPackets(t, registry.PermitsConfig{})
		defer end()
		_, e := ask(t, s, "metadata:put", `{"key": "bulkhead:x", "value": {"maxConcurrentCalls": 2, "maxWaitDurationInMillis": 0}}`)
		require.Nil(t, e)
		got, e := ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x", "permits": 2}`)
		require.Nil(t, e)
		permit := got["permit"].(string)
		require.GreaterOrEqual(t, len(permit), 20)
		_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x"}`)
		require.Equal(t, registry.FailedToAcquirePermit, e.Code)
		_, e = ask(t, s, "circuitbreaker:release", `{"permit": "`+permit+`"}`)
		require.Equal(t, registry.FailureWhileExecutingOperation, e.Code)
		_, e = ask(t, s, "bulkhead:release", `{"permit": "`+permit+`"}`)
		require.Nil(t, e)
		_, e = ask(t, s, "bulkhead:release", `{"permit": "`+permit+`"}`)
		require.Equal(t, registry.FailureWhileExecutingOperation, e.Code)
		require.Contains(t, e.Message, "not found")

		// One that is not released comes back after the lease.
		_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x", "permits": 2}`)
		require.Nil(t, e)
		time.Sleep(time.Minute - 1)
		_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x"}`)
		require.NotNil(t, e)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x"}`)
		require.Nil(t, e)

		_, e = ask(t, s, "metadata:put", `{"key": "circuitbreaker:x", "value": {"slidingWindowSize": 2, "minimumNumberOfCalls": 2}}`)
		require.Nil(t, e)
		for _, outcome := range []string{"failure", "ignored", "ignored", "failure"} {
			got, e := ask(t, s, "circuitbreaker:acquire", `{"key": "circuitbreaker:x"}`)
			require.Nil(t, e)
			_, e = ask(t, s, "circuitbreaker:release", `{"permit": "`+got["permit"].(string)+`", "outcome": "`+outcome+`"}`)
			require.Nil(t, e)
		}
		_, e = ask(t, s, "circuitbreaker:acquire", `{"key": "circuitbreaker:x"}`)
		require.Equal(t, registry.FailedToAcquirePermit, e.Code)
		require.Contains(t, e.Message, "open")
	})
}

func TestPacketsThatFail(t *testing.T) {
	s, end := newPackets(t, registry.PermitsConfig{Meta: metaFunc(func(_ context.Context, op store.MetaOp) ([]store.Record, error) {
		switch op.Key {
		case "bulkhead:bad":
			return []store.Record{{Key: op.Key, Value: json.RawMessage(`[]`), Version: 1}}, nil
		case "bulkhead:panic":
			return nil, errors.New(strings.Repeat("x", 5000))
		}
		return nil, nil
	})})
	defer end()
	for _, c := range []struct {
		packet string
		code   registry.Code
		text   string
	}{
		{``, registry.FailureWhileExecutingOperation, "JSON"},
		{`[]`, registry.FailureWhileExecutingOperation, "want an object"},
		{`{}`, registry.FailureWhileExecutingOperation, "without an operation"},
		{`{"operation": "metadata:get"}`, registry.FailureWhileExecutingOperation, "without data"},
		{`{"operation": "metadata:get", "data": null}`, registry.FailureWhileExecutingOperation, "without data"},
		{`{"operation": "", "data": {}}`, registry.FailureWhileExecutingOperation, "without an operation"},
		{`{"operation": "metadata", "data": {}}`, registry.FailureWhileExecutingOperation, "want <domain>:<action>"},
		{`{"operation": ":get", "data": {}}`, registry.FailureWhileExecutingOperation, "want <domain>:<action>"},
		{`{"operation": "metadata:", "data": {}}`, registry.FailureWhileExecutingOperation, "want <domain>:<action>"},
		{`{"operation": "metadata:` + strings.Repeat("x", 60) + `", "data": {}}`, registry.FailureWhileExecutingOperation, "want <domain>:<action>"},
		{`{"operation": 5, "data": {}}`, registry.FailureWhileExecutingOperation, "operation is 5"},
		{`{"operation": "metadata:get", "data": {"key": "bulkhead:x"}, "operation": "metadata:put"}`, registry.FailureWhileExecutingOperation, "twice"},
		{`{"operation": "metadata:get", "data": {"key": "bulkhead:x"}, "extra": 1}`, registry.FailureWhileExecutingOperation, "extra is 1"},
		{`{"operation": "metadata:get", "headers": {}, "data": {}}`, registry.FailureWhileExecutingOperation, "headers is {}"},
		{`{"operation": "metadata:get", "data": {"key": "bulkhead:x", "value": 1}}`, registry.FailureWhileExecutingOperation, "data.value is 1, want no such field"},
		{`{"operation": "metadata:get", "data": {"key": 5}}`, registry.FailureWhileExecutingOperation, "data.key is 5"},
		{`{"operation": "metadata:get", "data": []}`, registry.FailureWhileExecutingOperation, "data is []"},
		{`{"operation": "metadata:put", "data": {"key": "bulkhead:x", "value": {}, "version": -1}}`, registry.FailureWhileExecutingOperation, "data.version is -1"},
		{`{"operation": "metadata:put", "data": {"key": "bulkhead:x"}}`, registry.FailureWhileExecutingOperation, "JSON"},
		{`{"operation": "metadata:put", "data": {"key": "bulkhead:x", "value": {"maxConcurrentCalls": 0}}}`, registry.FailureWhileExecutingOperation, "maxConcurrentCalls is 0"},
		{`{"operation": "metadata:drop", "data": {}}`, registry.FailureWhileExecutingOperation, "action of operation"},
		{`{"operation": "tables:drop", "data": {}}`, registry.RegistryNotFound, "domain of operation"},
		{`{"operation": "METADATA:get", "data": {}}`, registry.RegistryNotFound, "domain of operation"},
		{`{"operation": "metadata:get", "data": {}}`, registry.RegistryNotFound, "key is"},
		{`{"operation": "bulkhead:acquire", "data": {"key": "ratelimiter:x"}}`, registry.RegistryNotFound, "that of a bulkhead"},
		{`{"operation": "bulkhead:acquire", "data": {"key": "bulkhead:bad"}}`, registry.FailedToInstantiateRegistry, "want an object"},
		{`{"operation": "bulkhead:acquire", "data": {"key": "bulkhead:panic"}}`, registry.FailedToInstantiateRegistry, "xxx"},
		{`{"operation": "ratelimiter:acquire", "data": {"key": "ratelimiter:x", "permits": 6}}`, registry.FailedToAcquirePermit, "more permits"},
		{`{"operation": "ratelimiter:release", "data": {"permit": "x"}}`, registry.FailureWhileExecutingOperation, "action of operation"},
		{`{"operation": "circuitbreaker:release", "data": {"permit": "x", "outcome": "maybe"}}`, registry.FailureWhileExecutingOperation, "data.outcome"},
		{`{"operation": "metadata:get", "data": {"key": "` + strings.Repeat("x", 16<<10) + `"}}`, registry.FailureWhileExecutingOperation, "want up to 16384"},
		{`{"operation": "metadata:get", "data": ` + strings.Repeat("[", 10) + strings.Repeat("]", 10) + `}`, registry.FailureWhileExecutingOperation, "10 levels"},
		{`{"operation": "metadata:get", "headers": [` + strings.Repeat("1,", 64) + `1], "data": {}}`, registry.FailureWhileExecutingOperation, "up to 64"},
	} {
		reply := s.Handle(t.Context(), []byte(c.packet))
		p, err := registry.ParsePacket(reply)
		require.NoError(t, err, c.packet)
		require.Equal(t, registry.StatusError, p.Status, c.packet)
		require.Equal(t, c.code, p.ErrorDetail.Code, c.packet)
		require.Contains(t, p.ErrorDetail.Message, c.text, c.packet)
		require.LessOrEqual(t, len(p.ErrorDetail.Message), 512)
		require.Nil(t, p.Data)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := s.Do(ctx, registry.Packet{Operation: "ratelimiter:acquire", Data: json.RawMessage(`{"key": "ratelimiter:x"}`)})
	require.Equal(t, registry.InterruptedWhileAcquiringPermit, p.ErrorDetail.Code)
	// A Packet that was made in Go may have anything in it.
	reply := s.Handle(t.Context(), []byte(`{"operation": "metadata:get", "data": {"key": "bulkhead:x"}}`))
	require.Contains(t, string(reply), `"status":"OK"`)
	p = s.Do(t.Context(), registry.Packet{Operation: "metadata:get", Data: json.RawMessage(`{"key"`)})
	require.Equal(t, registry.StatusError, p.Status)
	require.Contains(t, s.Do(t.Context(), registry.Packet{Operation: "metadata:get", Data: json.RawMessage(`{"key": "` + strings.Repeat("x", 16<<10) + `"}`)}).ErrorDetail.Message, "16384")
}

func TestPermitsOfPacketsAreBounded(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{})
	defer p.Close()
	s, err := registry.NewPackets(registry.PacketsConfig{Permits: p, MaxPermits: 1})
	require.NoError(t, err)
	_, e := ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x", "permits": 12}`)
	require.Nil(t, e)
	_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x", "permits": 13}`)
	require.Equal(t, registry.FailedToAcquirePermit, e.Code)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	m, err := p.Acquire(t.Context(), "bulkhead:x", 25) // all have come back
	require.NoError(t, err)
	m.Release(nil)
	_, e = ask(t, s, "bulkhead:acquire", `{"key": "bulkhead:x"}`)
	require.Contains(t, e.Message, "closed")
	for _, cfg := range []registry.PacketsConfig{{}, {Permits: p, Lease: 1}, {Permits: p, MaxPermits: -1}} {
		_, err := registry.NewPackets(cfg)
		require.ErrorIs(t, err, registry.ErrInvalid)
	}
}

func FuzzPackets(f *testing.F) {
	for _, s := range []string{`{"headers": [], "operation": "metadata:put", "data": {"key": "bulkhead:x", "value": {"a": 1}}}`, `{"operation": "metadata:list", "data": {"limit": 3}}`,
		`{"operation": "bulkhead:acquire", "data": {"key": "bulkhead:x", "permits": 3}}`, `{"operation": "circuitbreaker:release", "data": {"permit": "x"}, "errorDetail": {}}`} {
		f.Add([]byte(s))
	}
	p, err := registry.NewPermits(registry.PermitsConfig{})
	if err != nil {
		f.Fatal(err)
	}
	s, err := registry.NewPackets(registry.PacketsConfig{Permits: p})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits
	f.Fuzz(func(t *testing.T, data []byte) {
		reply := s.Handle(ctx, data)
		r, err := registry.ParsePacket(reply)
		if len(reply) <= 16<<10 && err != nil {
			t.Fatalf("%s: %v", reply, err)
		}
		if err == nil && (r.Status == registry.StatusOK) != (r.ErrorDetail == nil) {
			t.Fatalf("%s", reply)
		}
	})
}

func TestClosedPacketsDoNothing(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{})
	defer p.Close()
	_, err := p.Put(t.Context(), "bulkhead:x", []byte(`{}`), 0)
	require.NoError(t, err)
	s, err := registry.NewPackets(registry.PacketsConfig{Permits: p})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, c := range []struct {
		operation, data string
		code            registry.Code
	}{
		{"metadata:get", `{"key": "bulkhead:x"}`, registry.FailureWhileExecutingOperation},
		{"metadata:put", `{"key": "bulkhead:y", "value": {}}`, registry.FailureWhileExecutingOperation},
		{"metadata:delete", `{"key": "bulkhead:x", "version": 1}`, registry.FailureWhileExecutingOperation},
		{"metadata:list", `{}`, registry.FailureWhileExecutingOperation},
		{"ratelimiter:acquire", `{"key": "ratelimiter:x"}`, registry.FailedToAcquirePermit},
		{"bulkhead:acquire", `{"key": "bulkhead:x"}`, registry.FailedToAcquirePermit},
		{"circuitbreaker:acquire", `{"key": "circuitbreaker:x"}`, registry.FailedToAcquirePermit},
		{"bulkhead:release", `{"permit": "x"}`, registry.FailureWhileExecutingOperation},
	} {
		_, e := ask(t, s, c.operation, c.data)
		if require.NotNil(t, e, c.operation); e.Code != c.code || !strings.Contains(e.Message, "closed") {
			t.Errorf("%s of a closed Packets: %+v, want %s", c.operation, e, c.code)
		}
	}
	all, err := p.List(t.Context(), "bulkhead", 10)
	require.NoError(t, err)
	require.Len(t, all, 1, "nothing was changed")
}

// A permit that a packet could not be given was not used: it tells a breaker nothing.
func TestWhatNoPacketGotClosesNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		s, err := registry.NewPackets(registry.PacketsConfig{Permits: p, MaxPermits: 1, Lease: time.Hour})
		require.NoError(t, err)
		defer s.Close()
		const key = "circuitbreaker:x"
		put(t, p, key, `{"minimumNumberOfCalls": 2, "slidingWindowSize": 2, "permittedNumberOfCallsInHalfOpenState": 2, "waitInOpenStateInMillis": 1000}`)
		for range 2 {
			m, err := p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			m.Release(errors.New("down"))
		}
		time.Sleep(time.Second)
		require.Contains(t, string(s.Handle(t.Context(), []byte(`{"operation": "bulkhead:acquire", "data": {"key": "bulkhead:y"}}`))), `"OK"`)
		for range 2 { // one permit may be out, and is
			require.Contains(t, string(s.Handle(t.Context(), []byte(`{"operation": "circuitbreaker:acquire", "data": {"key": "`+key+`"}}`))), `"ERROR"`)
		}
		n := 0
		for range 10 {
			if _, err := p.Acquire(t.Context(), key, 1); err == nil {
				n++
			}
		}
		require.Equal(t, 2, n, "it is half open")
	})
}
