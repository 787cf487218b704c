"""DefaultPreemption: room for a pod by evicting less important ones."""
