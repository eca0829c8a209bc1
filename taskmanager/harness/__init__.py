"""Runs operators without a runtime, for tests of users (``tidegate.testing``) and of this project."""
