-- Which kinds of items sold in all channels exceed the average sale, by channel and kind?
WITH sold AS (
  SELECT
    'store' AS channel, ss_item_sk AS item_sk, ss_sold_date_sk AS day_sk,
    ss_quantity * ss_list_price AS amount
  FROM store_sales
  UNION ALL
  SELECT 'catalog', cs_item_sk, cs_sold_date_sk, cs_quantity * cs_list_price FROM catalog_sales
  UNION ALL
  SELECT 'web', ws_item_sk, ws_sold_date_sk, ws_quantity * ws_list_price FROM web_sales
),
recent AS (
  SELECT channel, amount, i_brand_id, i_class_id, i_category_id, d_year, d_moy
  FROM sold
  JOIN item ON i_item_sk = item_sk
  JOIN date_dim ON d_date_sk = day_sk AND d_year BETWEEN 1999 AND 2001
),
everywhere AS (
  SELECT i_brand_id, i_class_id, i_category_id FROM recent WHERE channel = 'store'
  INTERSECT
  SELECT i_brand_id, i_class_id, i_category_id FROM recent WHERE channel = 'catalog'
  INTERSECT
  SELECT i_brand_id, i_class_id, i_category_id FROM recent WHERE channel = 'web'
),
grouped AS (
  SELECT channel, i_brand_id, i_class_id, i_category_id, sum(amount) AS sales, count(*) AS number
  FROM recent
  LEFT SEMI JOIN everywhere
    ON everywhere.i_brand_id = recent.i_brand_id
    AND everywhere.i_class_id = recent.i_class_id
    AND everywhere.i_category_id = recent.i_category_id
  WHERE d_year = 2001 AND d_moy = 11
  GROUP BY channel, i_brand_id, i_class_id, i_category_id
  HAVING sum(amount) > (SELECT avg(amount) FROM recent)
)
SELECT
  channel, i_brand_id, i_class_id, i_category_id, sum(sales) AS sales, sum(number) AS number
FROM grouped
GROUP BY ROLLUP (channel, i_brand_id, i_class_id, i_category_id)
ORDER BY channel, i_brand_id, i_class_id, i_category_id, grouping_id()
LIMIT 100
