"""Controllers, scheduler and node agent beside the server: in its process or in a child process."""
