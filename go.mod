module github.com/flyball-go/flyball

go 1.26.0

require (
	github.com/jackc/puddle/v2 v2.2.3
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
