-- Which brands of some managers sell at breakfast and dinner in all channels, by time of day?
WITH sold AS (
  SELECT
    ss_item_sk AS item_sk,
    ss_sold_date_sk AS date_sk,
    ss_sold_time_sk AS time_sk,
    ss_ext_sales_price AS price
  FROM store_sales
  UNION ALL
  SELECT cs_item_sk, cs_sold_date_sk, cs_sold_time_sk, cs_ext_sales_price
  FROM catalog_sales
  UNION ALL
  SELECT ws_item_sk, ws_sold_date_sk, ws_sold_time_sk, ws_ext_sales_price
  FROM web_sales
)
SELECT i_brand_id, i_brand, t_hour, t_minute, sum(price) AS sales
FROM sold
JOIN item ON i_item_sk = item_sk
JOIN date_dim ON d_date_sk = date_sk
JOIN time_dim ON t_time_sk = time_sk
WHERE i_manager_id BETWEEN 1 AND 20
  AND d_year = 1999 AND d_moy = 11
  AND t_meal_time IN ('breakfast', 'dinner')
GROUP BY i_brand_id, i_brand, t_hour, t_minute
ORDER BY sales DESC, i_brand_id, i_brand, t_hour, t_minute
