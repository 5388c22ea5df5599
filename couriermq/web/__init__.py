"""The plumbing that dialects share: from an HTTP request to a Call, and from a Reply back."""
