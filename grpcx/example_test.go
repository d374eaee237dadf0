package grpcx_test

import (
	"fmt"

	"github.com/flyball-go/flyball/grpcx"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func ExampleError() {
	// The error of a call, and the trailer that grpc.Trailer(&trailer) filled.
	err := status.Error(codes.ResourceExhausted, "Resource has been exhausted (e.g. check quota).")
	trailer := metadata.Pairs("google.ads.googleads.v25.errors.googleadsfailure-bin",
		"\n$\n\x02X\x04*\x1e\"\x1c\b\x02\x12\x14Requests per account\x1a\x02\b\x1c")

	err = grpcx.Error(err, trailer)

	delay, limited := vendors.GoogleAds().DelayError(err)
	fmt.Println(limited, delay, status.Code(err))
	// Output: true 28s ResourceExhausted
}
