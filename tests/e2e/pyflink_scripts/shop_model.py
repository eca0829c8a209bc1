"""A module beside the script ``own_classes.py``."""

import enum


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Basket:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)
        return self

    def __repr__(self):
        return f"Basket({sorted(map(str, self.items))})"
