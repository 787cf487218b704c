module example.com/pod-policy

go 1.26.0

require (
	k8s.io/api v0.35.7
	k8s.io/apimachinery v0.35.7
	sigs.k8s.io/controller-runtime v0.23.3
)
