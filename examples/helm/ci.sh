#!/bin/sh
# Try a Helm chart as CI does on each push: lint, install, test, upgrade, roll back, uninstall. No cluster is needed.
#   ci.sh CHART [VALUES of the upgrade, as replicas=3]
set -eu
chart=$1 values=${2:-}
data=$(mktemp -d)
trap 'kubedra down --data-dir="$data/server"; rm -r "$data"' EXIT
kubedra up --detach --port=0 --storage=memory --jobs-exit-after=1s --data-dir="$data/server"
export KUBECONFIG="$data/server/kubeconfig"

helm lint "$chart"
helm install release "$chart" --namespace=ci --create-namespace --wait --timeout=2m
helm test release --namespace=ci --timeout=2m
helm upgrade release "$chart" --namespace=ci ${values:+--set="$values"} --wait --timeout=2m
helm rollback release 1 --namespace=ci --wait --timeout=2m
kubectl get all --namespace=ci
helm uninstall release --namespace=ci --wait --timeout=2m
left=$(kubectl get deployments,statefulsets,daemonsets,services --namespace=ci --output=name) # pods of hooks stay, as Helm documents
[ -z "$left" ] || { echo "left after the uninstall: $left" >&2; exit 1; }
