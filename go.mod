module github.com/flyball-go/flyball

go 1.26.0

require github.com/jackc/puddle/v2 v2.2.3

require golang.org/x/sync v0.24.0 // indirect
