"""Resources, their rules and the one generic store. Knows kinds as data; knows no HTTP and no SQL."""
