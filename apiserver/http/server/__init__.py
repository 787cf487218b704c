"""HTTP/1.1 on sockets: the protocol of a connection, and the listening end."""
