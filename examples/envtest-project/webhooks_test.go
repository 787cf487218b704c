package policy

import (
	"context"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var kube client.Client

func TestMain(m *testing.M) {
	ctx, stop := context.WithCancel(context.Background())
	environment := &envtest.Environment{
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"manifests"}},
	}
	config, err := environment.Start()
	check(err)
	at := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir,
		}),
	})
	check(err)
	Register(manager)
	check((&Budgets{}).Start(manager))
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	for started := manager.GetWebhookServer().StartedChecker(); started(nil) != nil; {
		time.Sleep(10 * time.Millisecond)
	}
	kube, err = client.New(config, client.Options{})
	check(err)
	code := m.Run()
	stop()
	check(<-ended)
	check(environment.Stop())
	os.Exit(code)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func pod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

func TestAPodWithoutATeamGetsOne(t *testing.T) {
	created := pod("fine", "registry.example.com/job:1")
	if err := kube.Create(context.Background(), created); err != nil {
		t.Fatal(err)
	}
	if created.Labels["team"] != "unknown" {
		t.Fatalf("labels: %v", created.Labels)
	}
}

func TestAnImageWithoutAVersionIsDenied(t *testing.T) {
	err := kube.Create(context.Background(), pod("unversioned", "registry.example.com/job:latest"))
	if err == nil || !strings.Contains(err.Error(), "container main needs an image with a version") {
		t.Fatal(err)
	}
}
