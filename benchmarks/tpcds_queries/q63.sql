-- In which months of 2000 do a manager's store sales deviate from the manager's monthly mean?
WITH monthly AS (
  SELECT
    i_manager_id,
    d_moy,
    sum(ss_sales_price) AS sales,
    avg(sum(ss_sales_price)) OVER (PARTITION BY i_manager_id) AS mean
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_year = 2000
    AND (
      i_category IN ('Home', 'Sports', 'Shoes') AND i_current_price >= 2
      OR i_category IN ('Jewelry', 'Books', 'Music') AND i_current_price < 5
    )
  GROUP BY i_manager_id, d_moy
)
SELECT i_manager_id, d_moy, sales, mean
FROM monthly
WHERE mean > 0 AND abs(sales - mean) > 0.1 * mean
ORDER BY i_manager_id, mean, sales, d_moy
LIMIT 100
