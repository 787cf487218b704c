"""What expressions may use: devices, admission requests, and what their text reveals."""
