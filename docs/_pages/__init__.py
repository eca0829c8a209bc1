"""Pages that follow from the code; `docs/generate.py` writes them."""
