"""What is told of every answered request."""
