"""Measures the 22 queries of TPC-H with Spark after `enable`, compared with delta-spark.

usage: tpch.py [--scale N] [--runs N] [--only QUERY ...] [--peers ENVIRONMENT] [--plot FILE]

The queries are written in Spark's SQL, from the business questions of the benchmark. The constants
are the benchmark's validation values.
"""

from __future__ import annotations

import sys

from tpc_suite import Suite, main

_QUERIES = {
    # How much was billed, shipped and returned, 90 days before December 1998?
    "q1": """
SELECT
  l_returnflag,
  l_linestatus,
  sum(l_quantity) AS quantity,
  sum(l_extendedprice) AS price,
  sum(l_extendedprice * (1 - l_discount)) AS discounted,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
  avg(l_quantity) AS mean_quantity,
  avg(l_extendedprice) AS mean_price,
  avg(l_discount) AS mean_discount,
  count(*) AS items
FROM lineitem
WHERE l_shipdate <= DATE'1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
""",
    # Which European supplier offers each brass part of size 15 at the lowest cost?
    "q2": """
WITH offer AS (
  SELECT ps_partkey, ps_supplycost, n_name, supplier.*
  FROM partsupp
  JOIN supplier ON s_suppkey = ps_suppkey
  JOIN nation ON n_nationkey = s_nationkey
  JOIN region ON r_regionkey = n_regionkey
  WHERE r_name = 'EUROPE'
)
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part
JOIN offer ON ps_partkey = p_partkey
WHERE p_size = 15
  AND endswith(p_type, 'BRASS')
  AND ps_supplycost = (
    SELECT min(ps_supplycost) FROM offer AS other WHERE other.ps_partkey = p_partkey
  )
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
LIMIT 100
""",
    # Which ten orders of builders, not shipped on a day, have the largest revenue?
    "q3": """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey AND o_orderdate < DATE'1995-03-15'
JOIN customer ON c_custkey = o_custkey AND c_mktsegment = 'BUILDING'
WHERE l_shipdate > DATE'1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate
LIMIT 10
""",
    # How many orders of a quarter had an item that arrived too late, by priority?
    "q4": """
SELECT o_orderpriority, count(*) AS late_orders
FROM orders
LEFT SEMI JOIN lineitem ON l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
WHERE o_orderdate >= DATE'1993-07-01' AND o_orderdate < DATE'1993-10-01'
GROUP BY o_orderpriority
ORDER BY o_orderpriority
""",
    # What is the revenue in Asia where customer and supplier are of the same nation?
    "q5": """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
JOIN nation ON n_nationkey = s_nationkey
JOIN region ON r_regionkey = n_regionkey
WHERE r_name = 'ASIA' AND o_orderdate >= DATE'1994-01-01' AND o_orderdate < DATE'1995-01-01'
GROUP BY n_name
ORDER BY revenue DESC
""",
    # How much more would have been earned in 1994 without some discounts?
    "q6": """
SELECT sum(l_extendedprice * l_discount) AS additional
FROM lineitem
WHERE l_discount BETWEEN 0.05 AND 0.07
  AND l_quantity < 24
  AND l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'
""",
    # What is the value of goods shipped between France and Germany, by year?
    "q7": """
WITH shipped AS (
  SELECT
    seller.n_name AS origin,
    buyer.n_name AS destination,
    year(l_shipdate) AS shipped_in,
    l_extendedprice * (1 - l_discount) AS volume
  FROM lineitem
  JOIN supplier ON s_suppkey = l_suppkey
  JOIN orders ON o_orderkey = l_orderkey
  JOIN customer ON c_custkey = o_custkey
  JOIN nation AS seller ON seller.n_nationkey = s_nationkey
  JOIN nation AS buyer ON buyer.n_nationkey = c_nationkey
  WHERE l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31'
)
SELECT origin, destination, shipped_in, sum(volume) AS revenue
FROM shipped
WHERE (origin = 'FRANCE' AND destination = 'GERMANY')
   OR (origin = 'GERMANY' AND destination = 'FRANCE')
GROUP BY origin, destination, shipped_in
ORDER BY origin, destination, shipped_in
""",
    # Which share of a type of steel sold in America came from Brazil, by year?
    "q8": """
WITH sale AS (
  SELECT
    year(o_orderdate) AS ordered_in,
    l_extendedprice * (1 - l_discount) AS volume,
    origin.n_name = 'BRAZIL' AS is_brazilian
  FROM lineitem
  JOIN part ON p_partkey = l_partkey
  JOIN orders ON o_orderkey = l_orderkey
  JOIN customer ON c_custkey = o_custkey
  JOIN nation AS home ON home.n_nationkey = c_nationkey
  JOIN region ON r_regionkey = home.n_regionkey
  JOIN supplier ON s_suppkey = l_suppkey
  JOIN nation AS origin ON origin.n_nationkey = s_nationkey
  WHERE r_name = 'AMERICA'
    AND p_type = 'ECONOMY ANODIZED STEEL'
    AND o_orderdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31'
)
SELECT ordered_in, sum(if(is_brazilian, volume, 0)) / sum(volume) AS share
FROM sale
GROUP BY ordered_in
ORDER BY ordered_in
""",
    # What is the profit on green parts, by the supplier's nation and by year?
    "q9": """
SELECT
  n_name,
  year(o_orderdate) AS ordered_in,
  sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
FROM lineitem
JOIN part ON p_partkey = l_partkey
JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN orders ON o_orderkey = l_orderkey
WHERE p_name LIKE '%green%'
GROUP BY n_name, ordered_in
ORDER BY n_name, ordered_in DESC
""",
    # Which twenty customers returned the most of what they had ordered in a quarter?
    "q10": """
SELECT
  c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS returned,
  c_acctbal, n_name, c_address, c_phone, c_comment
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation ON n_nationkey = c_nationkey
WHERE l_returnflag = 'R' AND o_orderdate >= DATE'1993-10-01' AND o_orderdate < DATE'1994-01-01'
GROUP BY c_custkey, c_name, c_acctbal, n_name, c_address, c_phone, c_comment
ORDER BY returned DESC
LIMIT 20
""",
    # Which parts hold an important share of the value of all stock in Germany?
    "q11": """
WITH stock AS (
  SELECT ps_partkey, ps_supplycost * ps_availqty AS price
  FROM partsupp
  JOIN supplier ON s_suppkey = ps_suppkey
  JOIN nation ON n_nationkey = s_nationkey
  WHERE n_name = 'GERMANY'
)
SELECT ps_partkey, sum(price) AS stock_value
FROM stock
GROUP BY ps_partkey
HAVING sum(price) > (SELECT sum(price) * {share} FROM stock)
ORDER BY stock_value DESC
""",
    # Do cheaper shipping modes delay orders of high priority?
    "q12": """
SELECT
  l_shipmode,
  count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high,
  count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP')
  AND l_shipdate < l_commitdate AND l_commitdate < l_receiptdate
  AND l_receiptdate >= DATE'1994-01-01' AND l_receiptdate < DATE'1995-01-01'
GROUP BY l_shipmode
ORDER BY l_shipmode
""",
    # How many customers have placed how many orders, apart from special requests?
    "q13": """
WITH placed AS (
  SELECT c_custkey, count(o_orderkey) AS orders
  FROM customer
  LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey
)
SELECT orders, count(*) AS customers
FROM placed
GROUP BY orders
ORDER BY customers DESC, orders DESC
""",
    # Which percentage of a month's revenue came from promoted parts?
    "q14": """
SELECT
  100 * sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE startswith(p_type, 'PROMO'))
    / sum(l_extendedprice * (1 - l_discount)) AS promoted
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE l_shipdate >= DATE'1995-09-01' AND l_shipdate < DATE'1995-10-01'
""",
    # Which supplier had the largest revenue in a quarter?
    "q15": """
WITH earned AS (
  SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue
  FROM lineitem
  WHERE l_shipdate >= DATE'1996-01-01' AND l_shipdate < DATE'1996-04-01'
  GROUP BY l_suppkey
)
SELECT s_suppkey, s_name, s_address, s_phone, revenue
FROM supplier
JOIN earned ON l_suppkey = s_suppkey
WHERE revenue = (SELECT max(revenue) FROM earned)
ORDER BY s_suppkey
""",
    # How many suppliers without complaints can deliver parts of some sizes, by kind of part?
    "q16": """
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM partsupp
JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45'
  AND NOT startswith(p_type, 'MEDIUM POLISHED')
  AND p_size IN (3, 9, 14, 19, 23, 36, 45, 49)
  AND ps_suppkey NOT IN (
    SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%'
  )
GROUP BY p_brand, p_type, p_size
ORDER BY suppliers DESC, p_brand, p_type, p_size
""",
    # What would be lost in a year without small orders of some parts?
    "q17": """
SELECT sum(l_extendedprice) / 7.0 AS yearly
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23'
  AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
""",
    # Which customers have placed the largest orders?
    "q18": """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
WHERE o_orderkey IN (
  SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300
)
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate
LIMIT 100
""",
    # What is the revenue of three brands in some containers, delivered in person by air?
    "q19": """
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE l_shipinstruct = 'DELIVER IN PERSON'
  AND l_shipmode IN ('AIR', 'AIR REG')
  AND p_size >= 1
  AND (
    p_brand = 'Brand#12' AND l_quantity BETWEEN 1 AND 11 AND p_size <= 5
      AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
    OR p_brand = 'Brand#23' AND l_quantity BETWEEN 10 AND 20 AND p_size <= 10
      AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
    OR p_brand = 'Brand#34' AND l_quantity BETWEEN 20 AND 30 AND p_size <= 15
      AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
  )
""",
    # Which suppliers in Canada have more than half a year's demand of forest parts?
    "q20": """
WITH demand AS (
  SELECT l_partkey, l_suppkey, sum(l_quantity) AS quantity
  FROM lineitem
  WHERE l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'
  GROUP BY l_partkey, l_suppkey
),
surplus AS (
  SELECT ps_suppkey
  FROM partsupp
  JOIN demand ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
  WHERE ps_availqty > 0.5 * quantity
    AND ps_partkey IN (SELECT p_partkey FROM part WHERE startswith(p_name, 'forest'))
)
SELECT s_name, s_address
FROM supplier
JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'CANADA' AND s_suppkey IN (SELECT ps_suppkey FROM surplus)
ORDER BY s_name
""",
    # Which suppliers in Saudi Arabia alone delayed orders of several suppliers?
    "q21": """
SELECT s_name, count(*) AS delayed
FROM lineitem AS late
JOIN supplier ON s_suppkey = late.l_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN orders ON o_orderkey = late.l_orderkey
WHERE n_name = 'SAUDI ARABIA'
  AND o_orderstatus = 'F'
  AND late.l_receiptdate > late.l_commitdate
  AND EXISTS (
    SELECT 1 FROM lineitem AS other
    WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
  )
  AND NOT EXISTS (
    SELECT 1 FROM lineitem AS other
    WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
      AND other.l_receiptdate > other.l_commitdate
  )
GROUP BY s_name
ORDER BY delayed DESC, s_name
LIMIT 100
""",
    # How many customers of some countries have money but no orders?
    "q22": """
WITH caller AS (
  SELECT c_custkey, c_acctbal, left(c_phone, 2) AS country
  FROM customer
  WHERE left(c_phone, 2) IN ('13', '17', '18', '23', '29', '30', '31')
)
SELECT country, count(*) AS customers, sum(c_acctbal) AS balance
FROM caller
LEFT ANTI JOIN orders ON o_custkey = c_custkey
WHERE c_acctbal > (SELECT avg(c_acctbal) FROM caller WHERE c_acctbal > 0)
GROUP BY country
ORDER BY country
""",
}


def _queries(scale: float) -> dict[str, str]:
    share = f"{0.0001 / scale:.10f}"
    return {name: sql.replace("{share}", share) for name, sql in _QUERIES.items()}


SUITE = Suite(
    name="tpch",
    title="TPC-H",
    tables=(
        "customer",
        "lineitem",
        "nation",
        "orders",
        "part",
        "partsupp",
        "region",
        "supplier",
    ),
    queries=_queries,
    scale=1.0,
    warm=True,
    target=0.75,
    target_each=1.05,
)


if __name__ == "__main__":
    main(SUITE, str(__doc__), sys.argv[1:])
