"""What a resource is: its data, its strategy, and the context that its rules receive."""
