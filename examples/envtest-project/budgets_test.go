package policy

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestADeploymentHasABudgetThatFollowsItsReplicas(t *testing.T) {
	labels := map[string]string{"app": "web"}
	replicas := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}}},
			},
		},
	}
	ctx := context.Background()
	if err := kube.Create(ctx, deployment); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{}
	eventually(t, "a budget of two", func() bool {
		err := kube.Get(ctx, client.ObjectKeyFromObject(deployment), budget)
		return err == nil && budget.Spec.MinAvailable.IntValue() == 2
	})
	if owner := metav1.GetControllerOf(budget); owner == nil || owner.UID != deployment.UID {
		t.Fatalf("owner: %v", owner)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"replicas": 1}}`))
	if err := kube.Patch(ctx, deployment, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no budget for one replica", func() bool {
		return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(deployment), budget))
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}
