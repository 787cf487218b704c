module github.com/kubedra/kubedra/clients/go

go 1.21
