"""The chain of handlers: authentication, authorization, and the response to a request."""
