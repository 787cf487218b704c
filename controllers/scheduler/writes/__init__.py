"""The scheduler's writes to pods, and pods that wait for their binding."""
