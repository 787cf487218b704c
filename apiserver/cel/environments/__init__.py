"""Variables and functions available to expressions on devices and admission requests, and analyses of their texts."""
