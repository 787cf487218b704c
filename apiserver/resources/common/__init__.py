"""Rules, columns and subresources that several kinds share."""
