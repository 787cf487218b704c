"""From a request to an object in hub form and back to what is stored: options, decoding, conversion, patches."""
