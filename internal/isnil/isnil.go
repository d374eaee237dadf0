// Package isnil finds nil pointers behind interfaces before they are called.
package isnil

import "reflect"

// Pointer reports whether v is a nil pointer. An interface that holds one is not nil.
func Pointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
