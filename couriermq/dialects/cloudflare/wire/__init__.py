"""Cloudflare's words: from its JSON to our nouns, and from our nouns to its JSON."""
