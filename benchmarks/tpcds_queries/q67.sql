-- Which are the best sold groups of items in each category, by brand, product, month and store?
WITH grouped AS (
  SELECT
    i_category,
    i_class,
    i_brand,
    i_product_name,
    d_year,
    d_qoy,
    d_moy,
    s_store_id,
    sum(coalesce(ss_sales_price * ss_quantity, 0)) AS sales
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN item ON i_item_sk = ss_item_sk
  WHERE d_year = 2000
  GROUP BY ROLLUP (
    i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id
  )
),
ranked AS (
  SELECT *, rank() OVER (PARTITION BY i_category ORDER BY sales DESC) AS position
  FROM grouped
)
SELECT *
FROM ranked
WHERE position <= 20
ORDER BY
  i_category, position, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id, sales
LIMIT 200
