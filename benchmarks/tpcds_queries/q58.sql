-- Which items have a similar revenue in all three channels, in some weeks?
WITH season AS (
  SELECT d_date_sk AS date_sk
  FROM date_dim
  WHERE d_week_seq BETWEEN
    (SELECT d_week_seq FROM date_dim WHERE d_date = DATE'2000-01-03')
    AND (SELECT d_week_seq FROM date_dim WHERE d_date = DATE'2000-06-26')
),
in_store AS (
  SELECT i_item_id, sum(ss_ext_sales_price) AS revenue
  FROM store_sales
  JOIN item ON i_item_sk = ss_item_sk
  LEFT SEMI JOIN season ON date_sk = ss_sold_date_sk
  GROUP BY i_item_id
),
by_catalog AS (
  SELECT i_item_id, sum(cs_ext_sales_price) AS revenue
  FROM catalog_sales
  JOIN item ON i_item_sk = cs_item_sk
  LEFT SEMI JOIN season ON date_sk = cs_sold_date_sk
  GROUP BY i_item_id
),
on_web AS (
  SELECT i_item_id, sum(ws_ext_sales_price) AS revenue
  FROM web_sales
  JOIN item ON i_item_sk = ws_item_sk
  LEFT SEMI JOIN season ON date_sk = ws_sold_date_sk
  GROUP BY i_item_id
)
SELECT
  in_store.i_item_id,
  in_store.revenue AS store_revenue,
  by_catalog.revenue AS catalog_revenue,
  on_web.revenue AS web_revenue,
  (in_store.revenue + by_catalog.revenue + on_web.revenue) / 3 AS mean
FROM in_store
JOIN by_catalog ON by_catalog.i_item_id = in_store.i_item_id
JOIN on_web ON on_web.i_item_id = in_store.i_item_id
WHERE greatest(in_store.revenue, by_catalog.revenue, on_web.revenue)
  <= 2 * least(in_store.revenue, by_catalog.revenue, on_web.revenue)
ORDER BY in_store.i_item_id, store_revenue
LIMIT 100
