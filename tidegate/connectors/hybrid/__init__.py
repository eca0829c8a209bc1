"""Several sources one after the other as one: files, then a topic from where they end."""
