package registry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/backoff"
)

// Decode reads a configuration, any struct of this module or of yours, from JSON: an
// object whose members are the struct's fields, by their names in any case. into is a
// pointer to the struct. Fields that are not there keep the values that they have, so
// that a configuration can be the base of another; after an error all do.
//
//   - A time.Duration is a string: "15s", "1h30m".
//   - A backoff.Schedule is the text that backoff.Parse reads: "exponential 1s x2 up to 1m".
//   - What has words, such as a governor.Overflow, is its word: "drop oldest". A
//     *time.Location is a name: "Europe/Berlin".
//   - A pointer to a struct is its object, or null; a slice is an array, which takes
//     the place of what there was.
//
// Numbers have to fit their field. What cannot be written down, a function, a channel,
// an interface but backoff.Schedule, a value made by a constructor, is refused by name;
// so are fields that the struct does not have, one that is there twice, text after the
// object, more than 64 KiB, and more than 16 levels. Whether the values make sense is
// for whoever gets the configuration to say. The error matches ErrInvalid, and is a
// *FieldError where it is about a field.
func Decode(data []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return invalidf("Decode into %T, want a pointer to a struct", into)
	}
	if err := configLimits.check(data); err != nil {
		return err
	}
	copied := reflect.New(v.Elem().Type()).Elem()
	copied.Set(v.Elem())
	if err := decodeStruct("", data, copied); err != nil {
		return err
	}
	v.Elem().Set(copied)
	return nil
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	scheduleType = reflect.TypeFor[backoff.Schedule]()
	locationType = reflect.TypeFor[*time.Location]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	wordType     = reflect.TypeFor[fmt.Stringer]()
)

// decode sets v, whose path is given, to what data says. v belongs to the caller, what
// it points to does not: that is copied before it is changed.
func decode(path string, data []byte, v reflect.Value) error {
	bad := func(want string) error { return &FieldError{path, shown(data), want} }
	t := v.Type()
	switch t {
	case durationType:
		var s string
		if json.Unmarshal(data, &s) == nil && !isNull(data) {
			if d, err := time.ParseDuration(s); err == nil {
				v.SetInt(int64(d))
				return nil
			}
		}
		return bad(`a duration, such as "15s"`)
	case scheduleType:
		return decodeSchedule(data, v, bad)
	case locationType:
		var s string
		if json.Unmarshal(data, &s) == nil && s != "" && len(s) <= 64 {
			if l, err := time.LoadLocation(s); err == nil {
				v.Set(reflect.ValueOf(l))
				return nil
			}
		}
		return bad(`a time zone, such as "Europe/Berlin"`)
	}
	if reflect.PointerTo(t).Implements(textType) {
		var s string
		if json.Unmarshal(data, &s) != nil || isNull(data) {
			return bad("a text")
		}
		fresh := reflect.New(t)
		if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			return bad("a text that it is written as: " + err.Error())
		}
		v.Set(fresh.Elem())
		return nil
	}
	if isNull(data) && t.Kind() != reflect.Pointer {
		return bad("a value")
	}
	switch t.Kind() {
	case reflect.Bool:
		var b bool
		if json.Unmarshal(data, &b) != nil {
			return bad("true or false")
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return decodeInteger(data, v, bad)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(string(data), t.Bits())
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return bad("a number")
		}
		v.SetFloat(f)
	case reflect.String:
		var s string
		if json.Unmarshal(data, &s) != nil {
			return bad("a string")
		}
		v.SetString(s)
	case reflect.Struct:
		return decodeStruct(path, data, v)
	case reflect.Pointer:
		return decodePointer(path, data, v)
	case reflect.Slice:
		all, ok := elements(data)
		if !ok {
			return bad("an array")
		}
		s := reflect.MakeSlice(t, len(all), len(all))
		for i, e := range all {
			if err := decode(fmt.Sprintf("%s[%d]", path, i), e, s.Index(i)); err != nil {
				return err
			}
		}
		v.Set(s)
	case reflect.Map:
		return decodeMap(path, data, v)
	default:
		return bad("nothing: it cannot be set from JSON, but in Go")
	}
	return nil
}

// hidden reports whether t is a struct without a field that could be set: its values
// are made by a constructor.
func hidden(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			return false
		}
	}
	return t.NumField() > 0
}

func decodeStruct(path string, data []byte, v reflect.Value) error {
	bad := func(want string) error { return &FieldError{path, shown(data), want} }
	if hidden(v.Type()) {
		return bad("nothing: it cannot be set from JSON, but in Go")
	}
	all, ok := members(data)
	if !ok {
		return bad("an object")
	}
	set := make([]bool, v.NumField())
	for _, m := range all {
		f, known := v.Type().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, m.name) })
		at := m.name
		if known && f.IsExported() && len(f.Index) == 1 {
			at = f.Name
		}
		if len(at) > 64 {
			at = at[:64]
		}
		if path != "" {
			at = path + "." + at
		}
		if !known || !f.IsExported() || len(f.Index) != 1 {
			return &FieldError{at, shown(m.value), "no such field"}
		}
		if set[f.Index[0]] {
			return &FieldError{at, shown(m.value), "it once: it is there twice"}
		}
		set[f.Index[0]] = true
		if err := decode(at, m.value, v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	return nil
}

// decodePointer makes v point to a copy of what it points to, changed by data.
func decodePointer(path string, data []byte, v reflect.Value) error {
	t := v.Type()
	if of := t.Elem(); of.Kind() != reflect.Struct || hidden(of) {
		return &FieldError{path, shown(data), "nothing: it cannot be set from JSON, but in Go"}
	}
	if isNull(data) {
		v.SetZero()
		return nil
	}
	fresh := reflect.New(t.Elem())
	if !v.IsNil() {
		fresh.Elem().Set(v.Elem())
	}
	if err := decode(path, data, fresh.Elem()); err != nil {
		return err
	}
	v.Set(fresh)
	return nil
}

func decodeMap(path string, data []byte, v reflect.Value) error {
	t := v.Type()
	all, ok := members(data)
	if t.Key().Kind() != reflect.String || !ok {
		return &FieldError{path, shown(data), "an object of names"}
	}
	fresh := reflect.MakeMapWithSize(t, len(all))
	for _, m := range all {
		e := reflect.New(t.Elem()).Elem()
		if err := decode(fmt.Sprintf("%s[%.64q]", path, m.name), m.value, e); err != nil {
			return err
		}
		fresh.SetMapIndex(reflect.ValueOf(m.name).Convert(t.Key()), e)
	}
	v.Set(fresh)
	return nil
}

func decodeSchedule(data []byte, v reflect.Value, bad func(string) error) error {
	var s string
	if isNull(data) {
		v.SetZero() // the default
		return nil
	}
	if json.Unmarshal(data, &s) != nil {
		return bad(`a schedule, such as "exponential 1s x2 up to 1m"`)
	}
	schedule, err := backoff.Parse(s)
	if err != nil {
		return bad(`a schedule, such as "exponential 1s x2 up to 1m": ` + err.Error())
	}
	v.Set(reflect.ValueOf(schedule))
	return nil
}

// decodeInteger sets a number, or one that has words, which are told from its String.
func decodeInteger(data []byte, v reflect.Value, bad func(string) error) error {
	t := v.Type()
	if t.Implements(wordType) && t.PkgPath() != "" {
		var s string
		words, fresh := []string{}, reflect.New(t).Elem()
		for n := range 64 {
			if fresh.CanInt() {
				fresh.SetInt(int64(n))
			} else {
				fresh.SetUint(uint64(n))
			}
			word := fresh.Interface().(fmt.Stringer).String()
			if word == "invalid" || strings.ContainsAny(word, "%(") {
				break // no more of them
			}
			if json.Unmarshal(data, &s) == nil && !isNull(data) && s == word {
				v.Set(fresh)
				return nil
			}
			words = append(words, strconv.Quote(word))
		}
		return bad("one of " + strings.Join(words, ", "))
	}
	if v.CanInt() {
		n, err := strconv.ParseInt(string(data), 10, t.Bits())
		if err != nil {
			return bad(fmt.Sprintf("a whole number of %d bits", t.Bits()))
		}
		v.SetInt(n)
		return nil
	}
	n, err := strconv.ParseUint(string(data), 10, t.Bits())
	if err != nil {
		return bad(fmt.Sprintf("a whole number of %d bits, 0 or more", t.Bits()))
	}
	v.SetUint(n)
	return nil
}
