#!/bin/bash
# A test suite in shell. The control plane is a coprocess; its standard input is closed when this script ends.
set -eu
directory=$(mktemp -d)
coproc KUBEDRA { exec kubedra serve --port=0 --announce --attached --storage=memory --controllers='*' --nodes=1 --data-dir="$directory"; }
trap 'exec {KUBEDRA[1]}>&-; wait "$KUBEDRA_PID"; rm -r "$directory"' EXIT
read -r announced <&"${KUBEDRA[0]}"

url=$(echo "$announced" | sed 's/.*"url": *"\([^"]*\)".*/\1/')
kubedra health --kubeconfig "$directory/kubeconfig"
kubedra node add worker --devices 4 --kubeconfig "$directory/kubeconfig"
echo "tests run against $url"
