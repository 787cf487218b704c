module example.com/fpga-driver

go 1.26.0

require (
	k8s.io/api v0.36.2
	k8s.io/apimachinery v0.36.2
	k8s.io/client-go v0.36.2
	k8s.io/dynamic-resource-allocation v0.36.2
)
