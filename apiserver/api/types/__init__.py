"""The types of all kinds, written once. Importing them is cheap: fields are built on first use."""
