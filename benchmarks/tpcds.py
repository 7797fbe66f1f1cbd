"""Measures queries on small TPC-DS tables with Spark, after `enable`, compared with delta-spark.

usage: tpcds.py [--scale N] [--runs N] [--only QUERY ...] [--peers ENVIRONMENT] [--plot FILE]

The 24 queries are in the style of TPC-DS. They ask about returns, inventory, and sales in stores,
by catalog and on the web. Each query runs once: on small tables, most of the time is query planning
and the compilation of generated code.
"""

from __future__ import annotations

import sys

from tpc_suite import Suite, main

_QUERIES = {
    # Which brands of a manufacturer sold most in each December?
    "d1": """
SELECT d_year, i_brand_id, i_brand, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE i_manufact_id BETWEEN 100 AND 400 AND d_moy = 12
GROUP BY d_year, i_brand_id, i_brand
ORDER BY d_year, sales DESC, i_brand_id
LIMIT 100
""",
    # Who returned more to a store than a fifth above the store's average customer?
    "d2": """
WITH returned AS (
  SELECT sr_customer_sk, sr_store_sk, sum(sr_return_amt) AS amount
  FROM store_returns
  JOIN date_dim ON d_date_sk = sr_returned_date_sk
  WHERE d_year = 2000
  GROUP BY sr_customer_sk, sr_store_sk
)
SELECT c_customer_id, amount
FROM returned
JOIN store ON s_store_sk = sr_store_sk
JOIN customer ON c_customer_sk = sr_customer_sk
WHERE amount > (
  SELECT 1.2 * avg(amount) FROM returned AS other WHERE other.sr_store_sk = returned.sr_store_sk
)
ORDER BY c_customer_id, amount
LIMIT 100
""",
    # How do weekly sales on the web and by catalog change within a year, by day?
    "d3": """
WITH sold AS (
  SELECT ws_sold_date_sk AS day, ws_ext_sales_price AS price FROM web_sales
  UNION ALL
  SELECT cs_sold_date_sk, cs_ext_sales_price FROM catalog_sales
),
weekly AS (
  SELECT
    d_week_seq,
    sum(price) FILTER (WHERE d_day_name = 'Sunday') AS sunday,
    sum(price) FILTER (WHERE d_day_name = 'Wednesday') AS wednesday,
    sum(price) FILTER (WHERE d_day_name = 'Saturday') AS saturday
  FROM sold
  JOIN date_dim ON d_date_sk = day
  GROUP BY d_week_seq
)
SELECT
  now.d_week_seq,
  round(now.sunday / nullif(later.sunday, 0), 2) AS sunday,
  round(now.wednesday / nullif(later.wednesday, 0), 2) AS wednesday,
  round(now.saturday / nullif(later.saturday, 0), 2) AS saturday
FROM weekly AS now
JOIN weekly AS later ON later.d_week_seq = now.d_week_seq + 52
ORDER BY now.d_week_seq
""",
    # Which states have many buyers of items that cost more than others of their category?
    "d4": """
SELECT ca_state, count(*) AS buyers
FROM store_sales
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE d_year = 2001 AND d_moy = 1
  AND i_current_price > (
    SELECT 1.2 * avg(i_current_price) FROM item AS other WHERE other.i_category = item.i_category
  )
GROUP BY ca_state
HAVING count(*) >= 10
ORDER BY buyers, ca_state
LIMIT 100
""",
    # What do single men with a college degree buy without a promotion by mail or event?
    "d5": """
SELECT
  i_item_id,
  avg(ss_quantity) AS quantity,
  avg(ss_list_price) AS list_price,
  avg(ss_coupon_amt) AS coupons,
  avg(ss_sales_price) AS price
FROM store_sales
JOIN customer_demographics ON cd_demo_sk = ss_cdemo_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
JOIN promotion ON p_promo_sk = ss_promo_sk
WHERE cd_gender = 'M' AND cd_marital_status = 'S' AND cd_education_status = 'College'
  AND (p_channel_email = 'N' OR p_channel_event = 'N')
  AND d_year = 2000
GROUP BY i_item_id
ORDER BY i_item_id
LIMIT 100
""",
    # What are the mean price and the mean discount for each of five ranges of quantities?
    "d6": """
SELECT
  ceil(ss_quantity / 20) AS range,
  count(*) AS sales,
  avg(ss_ext_discount_amt) AS discount,
  avg(ss_net_paid) AS paid
FROM store_sales
WHERE ss_quantity BETWEEN 1 AND 100
GROUP BY ceil(ss_quantity / 20)
ORDER BY range
""",
    # Who bought in a store and also on the web or by catalog, by demographics?
    "d7": """
SELECT cd_gender, cd_marital_status, cd_education_status, count(*) AS customers
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
WHERE EXISTS (
    SELECT 1 FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk
    WHERE ss_customer_sk = c_customer_sk AND d_year = 2002
  )
  AND (
    EXISTS (
      SELECT 1 FROM web_sales JOIN date_dim ON d_date_sk = ws_sold_date_sk
      WHERE ws_bill_customer_sk = c_customer_sk AND d_year = 2002
    )
    OR EXISTS (
      SELECT 1 FROM catalog_sales JOIN date_dim ON d_date_sk = cs_sold_date_sk
      WHERE cs_ship_customer_sk = c_customer_sk AND d_year = 2002
    )
  )
GROUP BY cd_gender, cd_marital_status, cd_education_status
ORDER BY cd_gender, cd_marital_status, cd_education_status
""",
    # Which customers spend a growing amount on the web compared with stores?
    "d8": """
WITH spent AS (
  SELECT c_customer_id, d_year, 'store' AS channel, sum(ss_ext_list_price) AS total
  FROM store_sales
  JOIN customer ON c_customer_sk = ss_customer_sk
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  GROUP BY c_customer_id, d_year
  UNION ALL
  SELECT c_customer_id, d_year, 'web', sum(ws_ext_list_price)
  FROM web_sales
  JOIN customer ON c_customer_sk = ws_bill_customer_sk
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  GROUP BY c_customer_id, d_year
)
SELECT s1.c_customer_id
FROM spent AS s1
JOIN spent AS s2 ON s2.c_customer_id = s1.c_customer_id
JOIN spent AS w1 ON w1.c_customer_id = s1.c_customer_id
JOIN spent AS w2 ON w2.c_customer_id = s1.c_customer_id
WHERE s1.channel = 'store' AND s1.d_year = 2000 AND s2.channel = 'store' AND s2.d_year = 2001
  AND w1.channel = 'web' AND w1.d_year = 2000 AND w2.channel = 'web' AND w2.d_year = 2001
  AND w2.total / nullif(w1.total, 0) > s2.total / nullif(s1.total, 0)
ORDER BY s1.c_customer_id
LIMIT 100
""",
    # What is each item's share of the revenue of its class, on the web in a month?
    "d9": """
SELECT
  i_item_id, i_category, i_class, sum(ws_ext_sales_price) AS revenue,
  sum(ws_ext_sales_price) * 100
    / nullif(sum(sum(ws_ext_sales_price)) OVER (PARTITION BY i_class), 0) AS share
FROM web_sales
JOIN item ON i_item_sk = ws_item_sk
JOIN date_dim ON d_date_sk = ws_sold_date_sk
WHERE i_category IN ('Sports', 'Books', 'Home')
  AND d_date BETWEEN DATE'1999-02-22' AND DATE'1999-03-24'
GROUP BY i_item_id, i_category, i_class
ORDER BY i_category, i_class, i_item_id, share
LIMIT 100
""",
    # What do some kinds of households buy at two ranges of profit, by address?
    "d10": """
SELECT avg(ss_quantity), avg(ss_ext_sales_price), avg(ss_ext_wholesale_cost)
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2001
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN customer_demographics ON cd_demo_sk = ss_cdemo_sk
JOIN customer_address ON ca_address_sk = ss_addr_sk
WHERE (cd_marital_status = 'M' AND hd_dep_count = 3 AND ss_sales_price BETWEEN 50 AND 150
    OR cd_marital_status = 'S' AND hd_dep_count = 1 AND ss_sales_price BETWEEN 10 AND 100)
  AND (ca_state IN ('TX', 'OH', 'KY') AND ss_net_profit > -500
    OR ca_state IN ('VA', 'MS', 'GA') AND ss_net_profit > -5000)
""",
    # Which items are bought across all three channels, by brand and by class?
    "d11": """
WITH common AS (
  SELECT i_brand_id, i_class_id FROM store_sales JOIN item ON i_item_sk = ss_item_sk
  INTERSECT
  SELECT i_brand_id, i_class_id FROM catalog_sales JOIN item ON i_item_sk = cs_item_sk
  INTERSECT
  SELECT i_brand_id, i_class_id FROM web_sales JOIN item ON i_item_sk = ws_item_sk
)
SELECT i_brand_id, i_class_id, sum(ss_quantity * ss_list_price) AS sales, count(*) AS number
FROM store_sales
JOIN item ON i_item_sk = ss_item_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
LEFT SEMI JOIN common
  ON common.i_brand_id = item.i_brand_id AND common.i_class_id = item.i_class_id
WHERE d_year = 2001 AND d_moy = 11
GROUP BY ROLLUP (i_brand_id, i_class_id)
ORDER BY i_brand_id, i_class_id
LIMIT 100
""",
    # How many catalog orders were shipped from several warehouses and not returned?
    "d12": """
SELECT
  count(DISTINCT cs_order_number) AS orders,
  sum(cs_ext_ship_cost) AS shipping,
  sum(cs_net_profit) AS profit
FROM catalog_sales
JOIN date_dim ON d_date_sk = cs_ship_date_sk
JOIN customer_address ON ca_address_sk = cs_ship_addr_sk
JOIN call_center ON cc_call_center_sk = cs_call_center_sk
WHERE d_date BETWEEN DATE'2001-04-01' AND DATE'2001-08-01'
  AND EXISTS (
    SELECT 1 FROM catalog_sales AS other
    WHERE other.cs_order_number = catalog_sales.cs_order_number
      AND other.cs_item_sk <> catalog_sales.cs_item_sk
  )
  AND NOT EXISTS (
    SELECT 1 FROM catalog_returns WHERE cr_order_number = catalog_sales.cs_order_number
  )
""",
    # What was bought in a store, returned there, and bought again by catalog?
    "d13": """
SELECT
  i_item_id, s_store_id,
  sum(ss_net_profit) AS store_profit, sum(sr_net_loss) AS loss, sum(cs_net_profit) AS profit
FROM store_sales
JOIN store_returns
  ON sr_customer_sk = ss_customer_sk AND sr_item_sk = ss_item_sk
  AND sr_ticket_number = ss_ticket_number
JOIN catalog_sales ON cs_bill_customer_sk = sr_customer_sk AND cs_item_sk = sr_item_sk
JOIN date_dim AS bought ON bought.d_date_sk = ss_sold_date_sk
JOIN date_dim AS returned ON returned.d_date_sk = sr_returned_date_sk
JOIN store ON s_store_sk = ss_store_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE bought.d_year BETWEEN 1999 AND 2001 AND returned.d_year BETWEEN 1999 AND 2002
GROUP BY i_item_id, s_store_id
ORDER BY i_item_id, s_store_id
LIMIT 100
""",
    # What do catalog customers buy, by country, state and county?
    "d14": """
SELECT
  ca_country, ca_state, ca_county,
  avg(cs_quantity) AS quantity, avg(cs_list_price) AS price, avg(c_birth_year) AS birth_year
FROM catalog_sales
JOIN customer_demographics ON cd_demo_sk = cs_bill_cdemo_sk
JOIN customer ON c_customer_sk = cs_bill_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN date_dim ON d_date_sk = cs_sold_date_sk
WHERE cd_gender = 'F' AND cd_education_status = 'Unknown' AND d_year = 1998
GROUP BY ROLLUP (ca_country, ca_state, ca_county)
ORDER BY ca_country, ca_state, ca_county
LIMIT 100
""",
    # How does the inventory of items change around a day, by warehouse?
    "d15": """
SELECT
  w_warehouse_name, i_item_id,
  sum(inv_quantity_on_hand) FILTER (WHERE d_date < DATE'2000-03-11') AS before,
  sum(inv_quantity_on_hand) FILTER (WHERE d_date >= DATE'2000-03-11') AS after
FROM inventory
JOIN warehouse ON w_warehouse_sk = inv_warehouse_sk
JOIN item ON i_item_sk = inv_item_sk
JOIN date_dim ON d_date_sk = inv_date_sk
WHERE i_current_price BETWEEN 1 AND 5
  AND d_date BETWEEN DATE'2000-02-10' AND DATE'2000-04-10'
GROUP BY w_warehouse_name, i_item_id
ORDER BY w_warehouse_name, i_item_id
LIMIT 100
""",
    # Which items have the largest stock, by product, brand, class and category?
    "d16": """
SELECT i_product_name, i_brand, i_class, i_category, avg(inv_quantity_on_hand) AS stock
FROM inventory
JOIN date_dim ON d_date_sk = inv_date_sk
JOIN item ON i_item_sk = inv_item_sk
WHERE d_year = 2000
GROUP BY ROLLUP (i_product_name, i_brand, i_class, i_category)
ORDER BY stock DESC, i_product_name, i_brand, i_class, i_category
LIMIT 100
""",
    # What do the best customers spend on frequently sold items by catalog and on the web?
    "d17": """
WITH frequent AS (
  SELECT ss_item_sk AS item_sk
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year IN (2000, 2001)
  GROUP BY ss_item_sk
  HAVING count(*) > 4
),
bought AS (
  SELECT ss_customer_sk, sum(ss_quantity * ss_sales_price) AS total
  FROM store_sales
  GROUP BY ss_customer_sk
),
best AS (
  SELECT ss_customer_sk AS customer_sk
  FROM bought
  WHERE total > 0.5 * (SELECT max(total) FROM bought WHERE ss_customer_sk IS NOT NULL)
)
SELECT sum(sales)
FROM (
  SELECT cs_quantity * cs_list_price AS sales
  FROM catalog_sales
  WHERE cs_item_sk IN (SELECT item_sk FROM frequent)
    AND cs_bill_customer_sk IN (SELECT customer_sk FROM best)
  UNION ALL
  SELECT ws_quantity * ws_list_price
  FROM web_sales
  WHERE ws_item_sk IN (SELECT item_sk FROM frequent)
    AND ws_bill_customer_sk IN (SELECT customer_sk FROM best)
)
""",
    # How do categories rank by margin within each state?
    "d18": """
SELECT
  s_state, i_category, sum(ss_net_profit) / nullif(sum(ss_ext_sales_price), 0) AS margin,
  rank() OVER (
    PARTITION BY s_state ORDER BY sum(ss_net_profit) / nullif(sum(ss_ext_sales_price), 0)
  ) AS position
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
JOIN store ON s_store_sk = ss_store_sk
WHERE d_year = 2001
GROUP BY s_state, i_category
ORDER BY s_state, position, i_category
""",
    # In which months do a brand's sales deviate from the yearly mean, with neighboring months?
    "d19": """
WITH monthly AS (
  SELECT
    i_brand, d_year, d_moy, sum(ss_sales_price) AS sales,
    avg(sum(ss_sales_price)) OVER (PARTITION BY i_brand, d_year) AS mean,
    lag(sum(ss_sales_price)) OVER (PARTITION BY i_brand ORDER BY d_year, d_moy) AS previous,
    lead(sum(ss_sales_price)) OVER (PARTITION BY i_brand ORDER BY d_year, d_moy) AS following
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN item ON i_item_sk = ss_item_sk
  WHERE d_year BETWEEN 1998 AND 2000
  GROUP BY i_brand, d_year, d_moy
)
SELECT *
FROM monthly
WHERE d_year = 1999 AND mean > 0 AND abs(sales - mean) > 0.1 * mean
ORDER BY sales - mean, i_brand, d_moy
LIMIT 100
""",
    # What are profit and loss of each channel, and of all?
    "d20": """
WITH channel AS (
  SELECT
    'store' AS name, s_store_id AS id,
    sum(ss_ext_sales_price) AS sales, sum(ss_net_profit) AS profit
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_year = 2000
  GROUP BY s_store_id
  UNION ALL
  SELECT 'catalog', cc_call_center_id, sum(cs_ext_sales_price), sum(cs_net_profit)
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  JOIN call_center ON cc_call_center_sk = cs_call_center_sk
  WHERE d_year = 2000
  GROUP BY cc_call_center_id
  UNION ALL
  SELECT 'web', web_site_id, sum(ws_ext_sales_price), sum(ws_net_profit)
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  JOIN web_site ON web_site_sk = ws_web_site_sk
  WHERE d_year = 2000
  GROUP BY web_site_id
)
SELECT name, id, sum(sales) AS sales, sum(profit) AS profit
FROM channel
GROUP BY ROLLUP (name, id)
ORDER BY name, id
""",
    # How many sales does a store make in each half hour of the morning?
    "d21": """
SELECT t_hour, t_minute >= 30 AS second_half, count(*) AS sales
FROM store_sales
JOIN time_dim ON t_time_sk = ss_sold_time_sk
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN store ON s_store_sk = ss_store_sk
WHERE t_hour BETWEEN 8 AND 12
  AND (hd_dep_count = 4 AND hd_vehicle_count <= 6 OR hd_dep_count = 2 AND hd_vehicle_count <= 4)
GROUP BY t_hour, t_minute >= 30
ORDER BY t_hour, second_half
""",
    # What are the reasons for returns on the web, and what do they cost?
    "d22": """
SELECT
  r_reason_desc,
  avg(ws_quantity) AS quantity, avg(wr_refunded_cash) AS refunded, avg(wr_fee) AS fee
FROM web_sales
JOIN web_returns ON wr_item_sk = ws_item_sk AND wr_order_number = ws_order_number
JOIN web_page ON wp_web_page_sk = ws_web_page_sk
JOIN reason ON r_reason_sk = wr_reason_sk
JOIN date_dim ON d_date_sk = ws_sold_date_sk
GROUP BY r_reason_desc
ORDER BY r_reason_desc
LIMIT 100
""",
    # Which customers live in a range of income, and returned something to a store?
    "d23": """
SELECT c_customer_id, concat_ws(', ', c_last_name, c_first_name) AS name
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN household_demographics ON hd_demo_sk = c_current_hdemo_sk
JOIN income_band ON ib_income_band_sk = hd_income_band_sk
WHERE ib_lower_bound >= 30000 AND ib_upper_bound <= 90000
  AND c_customer_sk IN (SELECT sr_customer_sk FROM store_returns)
ORDER BY c_customer_id
LIMIT 100
""",
    # How long does shipping from each warehouse take, by kind of shipping?
    "d24": """
SELECT
  w_warehouse_name, sm_type, web_name,
  count_if(ws_ship_date_sk - ws_sold_date_sk <= 30) AS month,
  count_if(ws_ship_date_sk - ws_sold_date_sk BETWEEN 31 AND 60) AS two_months,
  count_if(ws_ship_date_sk - ws_sold_date_sk > 60) AS longer
FROM web_sales
JOIN warehouse ON w_warehouse_sk = ws_warehouse_sk
JOIN ship_mode ON sm_ship_mode_sk = ws_ship_mode_sk
JOIN web_site ON web_site_sk = ws_web_site_sk
JOIN date_dim ON d_date_sk = ws_ship_date_sk
WHERE d_year = 2000
GROUP BY w_warehouse_name, sm_type, web_name
ORDER BY w_warehouse_name, sm_type, web_name
""",
}

SUITE = Suite(
    name="tpcds",
    title="Questions on TPC-DS",
    tables=(
        "call_center",
        "catalog_returns",
        "catalog_sales",
        "customer",
        "customer_address",
        "customer_demographics",
        "date_dim",
        "household_demographics",
        "income_band",
        "inventory",
        "item",
        "promotion",
        "reason",
        "ship_mode",
        "store",
        "store_returns",
        "store_sales",
        "time_dim",
        "warehouse",
        "web_page",
        "web_returns",
        "web_sales",
        "web_site",
    ),
    queries=lambda _: _QUERIES,
    scale=0.01,
    warm=False,
    target=0.15,
    target_each=1.05,
)


if __name__ == "__main__":
    main(SUITE, str(__doc__), sys.argv[1:])
