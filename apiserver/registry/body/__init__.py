"""Request bodies: options, decoding to hub form, conversion, and encoding for storage."""
