"""What the scheduler writes to pods, and pods that wait for their binding."""
