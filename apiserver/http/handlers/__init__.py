"""The way of a request: who asks, whether they may, and what answers."""
