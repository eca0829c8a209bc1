"""TPC-H's 22 queries over bounded input give the rows of DuckDB, as streams and in batch mode: plans that Flink 2.3 compiled, statements of our own."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import pytest

from tests.unit.tidegate.plan.recorded import plan_text
from tests.unit.tidegate.table._execution.plan_run import PlanRun
from tests.unit.tidegate.table._execution.tpch_tables import small_tables
from tidegate.plan import decode_plan
from tidegate.plan import nodes as plan_nodes

pytestmark = pytest.mark.timeout(300)
Texts = tuple[str | None, ...]
_MONEY, _TEXT = "DECIMAL(15, 2)", "VARCHAR"
_COLUMNS = {
    "region": f"r_regionkey INT, r_name {_TEXT}, r_comment {_TEXT}",
    "nation": f"n_nationkey INT, n_name {_TEXT}, n_regionkey INT, n_comment {_TEXT}",
    "supplier": f"s_suppkey BIGINT, s_name {_TEXT}, s_address {_TEXT}, s_nationkey INT, s_phone {_TEXT}, s_acctbal {_MONEY}, s_comment {_TEXT}",
    "customer": f"c_custkey BIGINT, c_name {_TEXT}, c_address {_TEXT}, c_nationkey INT, c_phone {_TEXT}, c_acctbal {_MONEY}, c_mktsegment {_TEXT}, "
    f"c_comment {_TEXT}",
    "part": f"p_partkey BIGINT, p_name {_TEXT}, p_mfgr {_TEXT}, p_brand {_TEXT}, p_type {_TEXT}, p_size INT, p_container {_TEXT}, "
    f"p_retailprice {_MONEY}, p_comment {_TEXT}",
    "partsupp": f"ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty BIGINT, ps_supplycost {_MONEY}, ps_comment {_TEXT}",
    "orders": f"o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus {_TEXT}, o_totalprice {_MONEY}, o_orderdate DATE, o_orderpriority {_TEXT}, "
    f"o_clerk {_TEXT}, o_shippriority INT, o_comment {_TEXT}",
    "lineitem": f"l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT, l_quantity {_MONEY}, l_extendedprice {_MONEY}, "
    f"l_discount {_MONEY}, l_tax {_MONEY}, l_returnflag {_TEXT}, l_linestatus {_TEXT}, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, "
    f"l_shipinstruct {_TEXT}, l_shipmode {_TEXT}, l_comment {_TEXT}",
}
_PAID = "l_extendedprice * (1 - l_discount)"
_BOXES = "p_container IN ('{0} CASE', '{0} BOX', '{0} {1}', '{0} {2}')"
_EUROPEAN = "partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey"
_GERMAN = (
    "partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey WHERE n_name = 'GERMANY'"
)
_QUARTER = "l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'"
_CODES = "substr(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')"
STATEMENTS = (
    f"SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum({_PAID}), sum({_PAID} * (1 + l_tax)), avg(l_quantity), "
    "avg(l_extendedprice), avg(l_discount), count(*) FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY ALL",
    "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment FROM "
    f"{_EUROPEAN} JOIN part ON p_partkey = ps_partkey WHERE p_size = 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE' AND ps_supplycost = "
    f"(SELECT min(x.ps_supplycost) FROM (SELECT * FROM {_EUROPEAN} WHERE r_name = 'EUROPE') x WHERE x.ps_partkey = p_partkey) "
    "ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100",
    f"SELECT l_orderkey, sum({_PAID}) AS paid, o_orderdate, o_shippriority FROM customer JOIN orders ON c_custkey = o_custkey "
    "JOIN lineitem ON l_orderkey = o_orderkey WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' "
    "AND l_shipdate > DATE '1995-03-15' GROUP BY ALL ORDER BY paid DESC, o_orderdate LIMIT 10",
    "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND o_orderkey IN "
    "(SELECT l_orderkey FROM lineitem WHERE l_commitdate < l_receiptdate) GROUP BY ALL",
    f"SELECT n_name, sum({_PAID}) FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey "
    "JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey JOIN nation ON s_nationkey = n_nationkey "
    "JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'ASIA' AND year(o_orderdate) = 1994 GROUP BY ALL",
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE year(l_shipdate) = 1994 AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    f"SELECT s.n_name, c.n_name, year(l_shipdate), sum({_PAID}) FROM supplier JOIN lineitem ON s_suppkey = l_suppkey "
    "JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey JOIN nation s ON s.n_nationkey = s_nationkey "
    "JOIN nation c ON c.n_nationkey = c_nationkey WHERE (s.n_name, c.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE')) "
    "AND year(l_shipdate) IN (1995, 1996) GROUP BY ALL",
    f"SELECT year(o_orderdate), sum(CASE WHEN s.n_name = 'BRAZIL' THEN {_PAID} ELSE 0 END) / sum({_PAID}) FROM part "
    "JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey "
    "JOIN customer ON c_custkey = o_custkey JOIN nation c ON c.n_nationkey = c_nationkey JOIN region ON r_regionkey = c.n_regionkey "
    "JOIN nation s ON s.n_nationkey = s_nationkey WHERE r_name = 'AMERICA' AND year(o_orderdate) IN (1995, 1996) "
    "AND p_type = 'ECONOMY ANODIZED STEEL' GROUP BY ALL",
    f"SELECT n_name, year(o_orderdate), sum({_PAID} - ps_supplycost * l_quantity) FROM part JOIN lineitem ON p_partkey = l_partkey "
    "JOIN supplier ON s_suppkey = l_suppkey JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey "
    "JOIN orders ON o_orderkey = l_orderkey JOIN nation ON n_nationkey = s_nationkey WHERE p_name LIKE '%green%' GROUP BY ALL",
    f"SELECT c_custkey, c_name, sum({_PAID}) AS paid, c_acctbal, n_name, c_address, c_phone, c_comment FROM customer "
    "JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey JOIN nation ON c_nationkey = n_nationkey "
    "WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' GROUP BY ALL ORDER BY paid DESC LIMIT 20",
    f"SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS worth FROM {_GERMAN} GROUP BY ps_partkey "
    f"HAVING worth > (SELECT sum(ps_supplycost * ps_availqty) * 0.0001 FROM {_GERMAN})",
    "SELECT l_shipmode, count(*) FILTER (o_orderpriority IN ('1-URGENT', '2-HIGH')), count(*) FILTER (o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) "
    "FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate "
    "AND l_shipdate < l_commitdate AND year(l_receiptdate) = 1994 GROUP BY ALL",
    "SELECT n, count(*) FROM (SELECT c_custkey, count(o_orderkey) AS n FROM customer LEFT JOIN orders ON c_custkey = o_custkey "
    "AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) GROUP BY n",
    f"SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {_PAID} ELSE 0 END) / sum({_PAID}) FROM lineitem JOIN part ON l_partkey = p_partkey "
    "WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    f"SELECT s_suppkey, s_name, s_address, s_phone, sum({_PAID}) AS total FROM supplier JOIN lineitem ON l_suppkey = s_suppkey WHERE {_QUARTER} "
    "GROUP BY s_suppkey, s_name, s_address, s_phone QUALIFY total = max(total) OVER ()",
    "SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) FROM partsupp JOIN part ON p_partkey = ps_partkey WHERE p_brand <> 'Brand#45' "
    "AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN "
    "(SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY ALL",
    "SELECT sum(l_extendedprice) / 7.0 FROM lineitem JOIN part ON p_partkey = l_partkey WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' "
    "AND l_quantity < (SELECT 0.2 * avg(x.l_quantity) FROM lineitem x WHERE x.l_partkey = p_partkey)",
    "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS n FROM customer JOIN orders ON c_custkey = o_custkey "
    "JOIN lineitem ON o_orderkey = l_orderkey GROUP BY ALL HAVING n > 300 ORDER BY o_totalprice DESC, o_orderdate LIMIT 100",
    f"SELECT sum({_PAID}) FROM lineitem JOIN part ON p_partkey = l_partkey WHERE l_shipmode IN ('AIR', 'AIR REG') "
    "AND l_shipinstruct = 'DELIVER IN PERSON' AND ("
    f"(p_brand = 'Brand#12' AND {_BOXES.format('SM', 'PACK', 'PKG')} AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5) OR "
    "(p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 "
    "AND p_size BETWEEN 1 AND 10) OR "
    f"(p_brand = 'Brand#34' AND {_BOXES.format('LG', 'PACK', 'PKG')} AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15))",
    "SELECT s_name, s_address FROM supplier JOIN nation ON n_nationkey = s_nationkey WHERE n_name = 'CANADA' AND s_suppkey IN "
    "(SELECT ps_suppkey FROM partsupp JOIN part ON p_partkey = ps_partkey WHERE p_name LIKE 'forest%' AND ps_availqty > "
    "(SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey AND year(l_shipdate) = 1994))",
    "SELECT s_name, count(*) AS n FROM supplier JOIN lineitem a ON s_suppkey = a.l_suppkey JOIN orders ON o_orderkey = a.l_orderkey "
    "JOIN nation ON n_nationkey = s_nationkey WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' AND a.l_receiptdate > a.l_commitdate "
    "AND EXISTS (SELECT 1 FROM lineitem b WHERE b.l_orderkey = a.l_orderkey AND b.l_suppkey <> a.l_suppkey) AND NOT EXISTS "
    "(SELECT 1 FROM lineitem b WHERE b.l_orderkey = a.l_orderkey AND b.l_suppkey <> a.l_suppkey AND b.l_receiptdate > b.l_commitdate) "
    "GROUP BY s_name ORDER BY n DESC, s_name LIMIT 100",
    f"SELECT substr(c_phone, 1, 2) AS code, count(*), sum(c_acctbal) FROM customer WHERE {_CODES} AND c_acctbal > "
    f"(SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0 AND {_CODES}) AND c_custkey NOT IN (SELECT o_custkey FROM orders) GROUP BY code",
)
ONE_ROW = (6, 14, 17, 19)
"""Queries whose rows replace the ones before, without saying so to a table that takes upserts."""


@cache
def database() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for name, rows in small_tables().items():
        made.execute(f"CREATE TABLE {name} ({_COLUMNS[name]})")
        made.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return made


def run(mode: str, number: int) -> list[tuple[str, Texts]]:
    tables = small_tables()
    with PlanRun(decode_plan(plan_text(f"tpch/{mode}-q{number:02d}.json"))) as plan:
        files = {}
        for scan in plan.scans:
            assert isinstance(scan, (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1))
            table = scan.scan_table_source.table.resolved_table
            assert table is not None
            assert table.options is not None
            name = table.options["path"].rpartition("/")[2]
            files[name] = tables[name]
        plan.push_files(files, one_by_one=False)
        return plan.changes()


def comparable(row: tuple[object, ...]) -> Texts:
    """Numbers with as many digits as both have: Flink gives quotients of decimals six behind the point."""
    return tuple(_comparable(value) for value in row)


def _comparable(value: object) -> str | None:
    try:
        return None if value is None else f"{float(str(value)):.5g}"
    except ValueError:
        return str(value)


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("number", range(1, 23))
def test_a_query_of_tpch_gives_the_rows_of_duckdb(number: int, mode: str) -> None:
    wanted = Counter(comparable(row) for row in database().execute(STATEMENTS[number - 1]).fetchall())
    assert wanted.total() > 0
    changes = run(mode, number)
    if number in ONE_ROW:
        changes = changes[-1:]
    rows: Counter[Texts] = Counter()
    for kind, row in changes:
        rows[comparable(row)] += 1 if kind in ("+I", "+U") else -1
    assert min(rows.values()) >= 0, "a row goes that has not come"
    assert +rows == wanted
