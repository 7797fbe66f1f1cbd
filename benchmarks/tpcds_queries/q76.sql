-- How much is sold without a household, a shipping address or a warehouse, by quarter and category?
WITH sold AS (
  SELECT
    'in stores' AS channel,
    'household' AS missing,
    ss_item_sk AS item_sk,
    ss_sold_date_sk AS date_sk,
    ss_ext_sales_price AS price
  FROM store_sales
  WHERE ss_hdemo_sk IS NULL
  UNION ALL
  SELECT 'on the web', 'address', ws_item_sk, ws_sold_date_sk, ws_ext_sales_price
  FROM web_sales
  WHERE ws_ship_addr_sk IS NULL
  UNION ALL
  SELECT 'by catalog', 'stock place', cs_item_sk, cs_sold_date_sk, cs_ext_sales_price
  FROM catalog_sales
  WHERE cs_warehouse_sk IS NULL
)
SELECT channel, missing, d_year, d_qoy, i_category, count(*) AS sales, sum(price) AS revenue
FROM sold
JOIN item ON i_item_sk = item_sk
JOIN date_dim ON d_date_sk = date_sk
GROUP BY channel, missing, d_year, d_qoy, i_category
ORDER BY channel, missing, d_year, d_qoy, i_category
LIMIT 200
