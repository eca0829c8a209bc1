"""Translation of compiled plans to jobs: sources, operators, sinks, and results that are collected by the program."""
