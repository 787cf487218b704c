"""What a request is about, and the plain messages that handlers exchange."""
