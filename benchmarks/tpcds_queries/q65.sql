-- Which items bring a store at most half of the revenue of its average item?
WITH earned AS (
  SELECT ss_store_sk, ss_item_sk, sum(ss_sales_price) AS revenue
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year = 2000
  GROUP BY ss_store_sk, ss_item_sk
),
mean AS (
  SELECT ss_store_sk AS store_sk, avg(revenue) AS mean_revenue
  FROM earned
  GROUP BY ss_store_sk
)
SELECT s_store_name, i_item_id, i_item_desc, revenue, i_current_price, i_wholesale_cost, i_brand
FROM earned
JOIN mean ON store_sk = ss_store_sk
JOIN store ON s_store_sk = ss_store_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE revenue <= 0.5 * mean_revenue
ORDER BY s_store_name, i_item_id, i_item_desc, revenue, s_store_sk, i_item_sk
LIMIT 100
