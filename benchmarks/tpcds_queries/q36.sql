-- How do classes rank by margin within their category, and categories among each other?
WITH margins AS (
  SELECT
    i_category, i_class,
    grouping(i_category) + grouping(i_class) AS level,
    sum(ss_net_profit) / nullif(sum(ss_ext_sales_price), 0) AS margin
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2001
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  GROUP BY ROLLUP (i_category, i_class)
)
SELECT
  *,
  rank() OVER (
    PARTITION BY level, CASE WHEN level = 0 THEN i_category END ORDER BY margin
  ) AS position
FROM margins
ORDER BY level DESC, i_category, position, i_class
LIMIT 100
