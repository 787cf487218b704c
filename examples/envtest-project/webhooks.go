// Package policy has two admission webhooks for pods, and a reconciler that keeps disruption budgets.
package policy

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Register serves the webhooks on the manager's server, at the paths of manifests/webhooks.yaml.
func Register(manager ctrl.Manager) {
	decoder := admission.NewDecoder(manager.GetScheme())
	serve := func(path string, handle func(*corev1.Pod, admission.Request) admission.Response) {
		manager.GetWebhookServer().Register(path, &webhook.Admission{
			Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
				pod := &corev1.Pod{}
				if err := decoder.Decode(request, pod); err != nil {
					return admission.Errored(http.StatusBadRequest, err)
				}
				return handle(pod, request)
			}),
		})
	}
	serve("/mutate-pods", setTeam)
	serve("/validate-pods", checkImages)
}

// setTeam labels pods without a team.
func setTeam(pod *corev1.Pod, request admission.Request) admission.Response {
	if pod.Labels["team"] != "" {
		return admission.Allowed("")
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["team"] = "unknown"
	changed, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// checkImages denies images without a version.
func checkImages(pod *corev1.Pod, _ admission.Request) admission.Response {
	for _, container := range pod.Spec.Containers {
		if !strings.Contains(container.Image, ":") || strings.HasSuffix(container.Image, ":latest") {
			return admission.Denied("container " + container.Name + " needs an image with a version")
		}
	}
	return admission.Allowed("")
}
