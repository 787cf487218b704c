module example.com/gpu-operator

go 1.21

require github.com/kubedra/kubedra/clients/go v0.1.0

// In a checkout of kubedra. In a project of your own leave this line out, and run `go mod tidy`.
replace github.com/kubedra/kubedra/clients/go => ../../clients/go
