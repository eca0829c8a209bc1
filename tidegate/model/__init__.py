"""The pure vocabulary, standard library only: ids, job graph, key groups, manifest, errors, options, machine kit.

Nothing here has a clock, a file, a thread or a logger; import-linter holds that border.
"""
