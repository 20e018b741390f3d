"""Built-in worlds: small seeded generators whose right answers are known."""
