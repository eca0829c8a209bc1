"""TPC-H's eight tables with rows that look like chance, small, and such that each of the 22 queries has rows. Texts of CSV files."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping

_NATIONS = ["ALGERIA", "BRAZIL", "INDIA", "FRANCE", "EGYPT", "KENYA", "CANADA", "JAPAN", "GERMANY", "SAUDI ARABIA"]
_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
_REGION_OF = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
_COLOURS = ["green", "forest", "red", "blue"]
_KINDS = ["STANDARD POLISHED BRASS", "PROMO BURNISHED COPPER", "ECONOMY ANODIZED STEEL", "SMALL PLATED BRASS"]
_BOXES = ["MED BOX", "SM CASE", "LG BOX", "SM BOX", "MED BAG", "LG CASE"]
_COMMENTS = ["quick", "special wishes and requests", "Customer with many Complaints", "slow"]
SUPPLIERS, CUSTOMERS, PARTS, ORDERS = 24, 60, 80, 400
_FULL = 20
"""Each order of so many is full of lines of large quantities."""


def small_tables() -> Mapping[str, list[list[str]]]:
    chance = random.Random(11)
    pick = chance.choice

    def day(first: int = 0, days: int = 2500) -> datetime.date:
        return datetime.date(1992, 1, 1) + datetime.timedelta(first + chance.randrange(days))

    def money(low: int, high: int) -> str:
        return f"{chance.randrange(low, high)}.{chance.randrange(100):02d}"

    partsupp = [
        [str(part), str(supplier), str(chance.randrange(9999)), money(1, 999), "c"]
        for part in range(PARTS)
        for supplier in chance.sample(range(SUPPLIERS), 4)
    ]
    orders, lines = [], []
    for order in range(ORDERS):
        ordered = day()
        orders.append(
            [
                str(order),
                str(chance.randrange(CUSTOMERS - 10)),
                pick("FOP"),
                money(1000, 400000),
                ordered.isoformat(),
                pick(["1-URGENT", "2-HIGH", "5-LOW"]),
                "k",
                "0",
                pick(_COMMENTS),
            ]
        )
        full = order % _FULL == 0
        for line in range(7 if full else chance.randrange(1, 7)):
            shipped, promised = (ordered + datetime.timedelta(chance.randrange(1, 120)) for _ in range(2))
            received = shipped + datetime.timedelta(chance.randrange(1, 30))
            lines.append(
                [
                    str(order),
                    *pick(partsupp)[:2],
                    str(line),
                    f"{chance.randrange(43 if full else 1, 51)}.00",
                    money(900, 90_000),
                ]
                + [f"0.0{chance.randrange(10)}", f"0.0{chance.randrange(9)}", pick("RAN"), pick("OF")]
                + [each.isoformat() for each in (shipped, promised, received)]
                + [pick(["DELIVER IN PERSON", "NONE"]), pick(["AIR", "AIR REG", "MAIL", "SHIP"]), "c"]
            )
    return {
        "region": [[str(number), name, "c"] for number, name in enumerate(_REGIONS)],
        "nation": [[str(number), name, str(_REGION_OF[number]), "c"] for number, name in enumerate(_NATIONS)],
        "supplier": [
            [
                str(number),
                f"Supplier#{number}",
                "a",
                str(chance.randrange(10)),
                f"{pick([13, 31, 23])}-1",
                money(-500, 9000),
                pick(_COMMENTS),
            ]
            for number in range(SUPPLIERS)
        ],
        "customer": [
            [
                str(number),
                f"Customer#{number}",
                "a",
                str(chance.randrange(10)),
                f"{pick([13, 31, 23])}-5",
                money(-500, 9000),
                pick(["BUILDING", "AUTOMOBILE"]),
                "c",
            ]
            for number in range(CUSTOMERS)
        ],
        "part": [
            [
                str(number),
                f"{pick(_COLOURS)} {pick(_COLOURS)}",
                "M",
                f"Brand#{pick([12, 23, 34, 45])}",
                pick(_KINDS),
                str(pick([15, 5, 10, 1, 49])),
                pick(_BOXES),
                "9.00",
                "c",
            ]
            for number in range(PARTS)
        ],
        "partsupp": partsupp,
        "orders": orders,
        "lineitem": lines,
    }
