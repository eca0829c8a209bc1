"""The shared vocabulary, pure and with the standard library only: ids, job graph, key groups, manifest, errors, options.

Nothing here has a clock, a file, a thread or a logger; import-linter holds that border.
"""
