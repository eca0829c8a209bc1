"""What the site needs beyond Sphinx's settings: its structure, the pages of the Python API, its versions."""
