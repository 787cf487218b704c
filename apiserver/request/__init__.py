"""Request info, and the plain messages that handlers exchange."""
