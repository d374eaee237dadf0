package registry

import (
	"encoding/json"
	"errors"
	"strings"
)

// The Status of a reply.
const (
	StatusOK    = "OK"
	StatusError = "ERROR"
)

// Packet is a message to Packets, or its reply: the one of firedb, through which
// Confined talks to its database.
type Packet struct {
	Headers     []json.RawMessage `json:"headers,omitempty"` // given back as they are; at most 64
	Operation   string            `json:"operation"`         // "<domain>:<action>". Required
	Data        json.RawMessage   `json:"data,omitempty"`    // what to do it with, or what came of it. Required, and an object
	Status      string            `json:"status,omitempty"`  // of a reply: StatusOK or StatusError
	ErrorDetail *ErrorDetail      `json:"errorDetail,omitempty"`
}

// ErrorDetail says why an operation failed.
type ErrorDetail struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// ParsePacket reads a packet of at most 16 KiB and 10 levels, with nothing in it twice
// and nothing that a Packet does not have. The error matches ErrInvalid.
func ParsePacket(data []byte) (Packet, error) {
	var p Packet
	if err := packetLimits.check(data); err != nil {
		return p, err
	}
	all, ok := members(data)
	if !ok {
		return p, &FieldError{"", shown(data), "an object"}
	}
	for _, m := range all {
		want := ""
		switch m.name {
		case "headers":
			if p.Headers, ok = elements(m.value); !ok && !isNull(m.value) || len(p.Headers) > 64 {
				want = "an array of up to 64"
			}
		case "operation":
			if json.Unmarshal(m.value, &p.Operation) != nil {
				want = `a string, such as "metadata:get"`
			}
		case "data":
			if p.Data = m.value; isNull(m.value) {
				p.Data = nil
			}
		case "status":
			if json.Unmarshal(m.value, &p.Status) != nil {
				want = "a string"
			}
		case "errorDetail":
			if !isNull(m.value) {
				p.ErrorDetail = new(ErrorDetail)
				if json.Unmarshal(m.value, p.ErrorDetail) != nil {
					want = "an object with code and message"
				}
			}
		default:
			want = "no such field"
		}
		if want != "" {
			return Packet{}, &FieldError{m.name, shown(m.value), want}
		}
	}
	return p, nil
}

// operation divides what a request asks for, or says what is wrong with it.
func (p Packet) operation() (domain, action string, err error) {
	domain, action, ok := strings.Cut(p.Operation, ":")
	switch {
	case p.Operation == "":
		err = invalidf("packet without an operation")
	case !ok || domain == "" || action == "" || len(p.Operation) > 64:
		err = invalidf("operation is %.64q, want <domain>:<action>", p.Operation)
	case len(p.Data) == 0:
		err = invalidf("packet without data")
	}
	return domain, action, err
}

// reply is the answer to p. A value that cannot be written is an error.
func (p Packet) reply(value any, err error) Packet {
	r := Packet{Headers: p.Headers, Operation: p.Operation, Status: StatusOK}
	if err == nil {
		r.Data, err = json.Marshal(value)
	}
	if err != nil {
		code := FailureWhileExecutingOperation
		if e, ok := errors.AsType[*Error](err); ok {
			code, err = e.Code, e.Err
		}
		message := strings.ToValidUTF8(err.Error(), "?")
		if len(message) > 512 {
			message = strings.ToValidUTF8(message[:512], "")
		}
		r.Data, r.Status, r.ErrorDetail = nil, StatusError, &ErrorDetail{code, message}
	}
	return r
}
