"""DefaultPreemption: evicting less important pods for a pod."""
