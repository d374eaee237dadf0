# Every module is built, linted and tested by itself, outside the workspace: a
# workspace takes the highest version that any of its modules asks for, which is
# not the build that users get. Only `make bench` and `make workspace` use go.work.
export GOWORK := off

MODULES     := $(shell find . -name go.mod -not -path '*/.*' -not -path '*/testdata/*' -exec dirname {} \; | sort)
PLATFORMS   := windows/amd64 darwin/arm64 js/wasm
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

FUZZTIME ?= 30s
FUZZREST ?= 5s
EFFORT   ?= 20
SOAK     ?= 1000000
CLUSTER  ?= 10m

# $(call each,command) runs the command in every module, and fails at the end when
# it failed in one.
each = @rc=0; for m in $(MODULES); do echo "-- $$m: $(1)"; (cd $$m && $(1)) || rc=1; done; exit $$rc

.PHONY: help test deep soak soak-cluster fuzz bench cover lint fmt vet staticcheck tidy tidy-check cross workspace generate generate-check

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 16

test: ## all tests of all modules; on Debian, root gets missing servers installed
	@scripts/test $(MODULES)

deep: ## all tests, with EFFORT times the random walks (default 20)
	FLYBALL_EFFORT=$(EFFORT) TESTFLAGS='-count=1 -timeout 12h' scripts/test $(MODULES)

soak: ## the soak tests with SOAK requests (default a million)
	FLYBALL_SOAK=$(SOAK) go test $(shell go list -race runtime >/dev/null 2>&1 && echo -race) -count=1 -v -timeout 60m -run Soak ./...

soak-cluster: ## real processes, servers and faults for CLUSTER (default 10m); the result is in cluster.json
	cd store/clustertest && FLYBALL_CLUSTER_SOAK=$(CLUSTER) FLYBALL_CLUSTER_JSON=$(CURDIR)/cluster.json go test -count=1 -v -timeout 25h -run TestSoak .

fuzz: ## every fuzz target: those of what servers send for FUZZTIME each, others for FUZZREST
	@scripts/fuzz $(FUZZTIME) $(FUZZREST)

bench: ## the measurements; ARGS are handed on
	GOWORK= go run ./bench $(ARGS)

cover: ## statements of the root module that its tests reach; leaves cover.out
	go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1

lint: fmt vet staticcheck ## gofmt, go vet and staticcheck (staticcheck.conf)

fmt:
	@echo "-- gofmt -l ."; out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "$$out"; echo "run gofmt -w on these"; exit 1; fi

vet:
	$(call each,go vet ./...)

staticcheck:
	$(call each,go run $(STATICCHECK) ./...)

tidy: ## go mod tidy in every module
	$(call each,go mod tidy)

tidy-check:
	$(call each,go mod tidy -diff)

# go vet compiles every dependency for the system and type-checks the rest, with tests.
# Tests try numbers that an int of 32 bits has no room for, so there the build is enough.
cross: ## vet the root module for other systems, and build all for one of 32 bits
	$(call each,GOARCH=386 CGO_ENABLED=0 go build ./...)
	@rc=0; for p in $(PLATFORMS); do \
		if [ "$${CROSS_UNTIL-}" ] && [ "$$(date +%s)" -ge "$$CROSS_UNTIL" ]; then echo "-- $$p is left out: there is no time"; continue; fi; \
		echo "-- $$p: go vet"; GOOS=$${p%/*} GOARCH=$${p#*/} go vet ./... || rc=1; done; exit $$rc

workspace: ## check that go.work joins every module and builds from the root
	@have=$$(for m in $(MODULES); do (cd $$m && go list -m); done | sort); joined=$$(GOWORK= go list -m | sort); \
		if [ "$$have" != "$$joined" ]; then echo "modules there are:" $$have; echo "joined by go.work:" $$joined; exit 1; fi
	GOWORK= go build work

generate: ## run every go:generate
	$(call each,go generate ./...)

# A generator script with -check writes nothing and fails when the committed
# code differs from what it would write.
generate-check:
	@scripts/need protoc protobuf-compiler libprotobuf-dev
	@set -e; for g in $$(find . -name generate.sh -not -path '*/.*'); do echo "-- $$g -check"; $$g -check; done
