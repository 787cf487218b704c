package policy

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Budgets gives each Deployment with several replicas a PodDisruptionBudget that keeps all but one of them.
type Budgets struct {
	client.Client
}

// Start adds the reconciler to the manager.
func (b *Budgets) Start(manager ctrl.Manager) error {
	b.Client = manager.GetClient()
	return ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Owns(&policyv1.PodDisruptionBudget{}).Complete(b)
}

// Reconcile creates, updates or deletes the budget of one Deployment.
func (b *Budgets) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := b.Get(ctx, request.NamespacedName, deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}}
	replicas := int32(1)
	if deployment.Spec.Replicas != nil {
		replicas = *deployment.Spec.Replicas
	}
	if replicas < 2 {
		return ctrl.Result{}, client.IgnoreNotFound(b.Delete(ctx, budget))
	}
	_, err := controllerutil.CreateOrUpdate(ctx, b.Client, budget, func() error {
		available := intstr.FromInt32(replicas - 1)
		budget.Spec.MinAvailable = &available
		budget.Spec.Selector = deployment.Spec.Selector
		return controllerutil.SetControllerReference(deployment, budget, b.Scheme())
	})
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: 1}, nil // another write was faster
	}
	return ctrl.Result{}, err
}
