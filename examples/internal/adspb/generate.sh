#!/bin/sh
# Regenerates the Go code of this folder from proto/. The generators are the
# versions that go.mod pins; protoc must be the one named here, since its version
# is written into the generated files (Debian 12: apt-get install protobuf-compiler libprotobuf-dev).
#
# With -check nothing is written: the script fails when the committed code differs
# from what would be generated.
set -eu
want="libprotoc 3.21.12"

cd "$(dirname "$0")"
if ! command -v protoc >/dev/null; then
	echo "generate.sh: protoc is not installed, want $want" >&2
	exit 2
fi
if [ "$(protoc --version)" != "$want" ]; then
	echo "generate.sh: found $(protoc --version), want $want" >&2
	exit 2
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/out"
GOWORK=off go build -o "$tmp/bin/" \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	google.golang.org/grpc/cmd/protoc-gen-go-grpc

PATH="$tmp/bin:$PATH" protoc -I .. \
	--go_out="$tmp/out" --go_opt=module=github.com/flyball-go/flyball/examples/internal/adspb \
	--go-grpc_out="$tmp/out" --go-grpc_opt=module=github.com/flyball-go/flyball/examples/internal/adspb \
	../adspb/proto/*.proto

if [ "${1-}" = -check ]; then
	for f in "$tmp"/out/*.go *.pb.go; do
		diff -u "$(basename "$f")" "$tmp/out/$(basename "$f")"
	done
else
	rm -f ./*.pb.go
	cp "$tmp"/out/*.go .
fi
